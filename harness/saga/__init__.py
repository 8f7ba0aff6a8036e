"""Saga: the coordinator of long tasks. State, plan, checks and recovery lie on disk; the agent works stage by stage.

Nothing runs in the background: a saga moves when somebody calls `harness.saga.coordinator.Coordinator.advance`, by at
most one decision a call. The log of events is the truth; the snapshot beside it is derived and can be deleted.
"""
