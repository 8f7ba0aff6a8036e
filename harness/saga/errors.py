"""Errors of a saga.

SherpaError
└── SagaError               a call was refused or failed; the saga is as it was
    ├── UnknownSagaError    no such saga
    ├── ConflictError       another call works on it, or was faster
    ├── RefusedError        not allowed in the saga's present state
    ├── PlanRefusedError    a plan that no stage can be read from
    ├── PathError           a path that leads out of the run's folder
    ├── QuotaError          more than a saga may hold
    ├── StateCorruptedError neither snapshot nor log can be read
    └── ProfileError        no such profile, or its file is malformed
"""

from __future__ import annotations

from sherpa.errors import SherpaError


class SagaError(SherpaError):
    """A call was refused or failed; the saga is as it was."""

    code = "invalid_parameters"


class UnknownSagaError(SagaError):
    """There is no such saga."""

    code = "not_found"


class ConflictError(SagaError):
    """Another call works on the saga at the same time, or was faster; nothing of this one was done."""

    code = "conflict"


class RefusedError(SagaError):
    """Not allowed in the saga's present state."""

    code = "refused"


class PlanRefusedError(SagaError):
    """No stage can be read from the plan."""

    code = "invalid_plan"


class PathError(SagaError):
    """A path that leads out of the run's folder, or that no file may have."""

    code = "invalid_path"


class QuotaError(SagaError):
    """More than a saga may hold."""

    code = "quota_exceeded"


class StateCorruptedError(SagaError):
    """Neither the snapshot nor the log of a saga can be read."""

    code = "state_corrupted"


class ProfileError(SagaError):
    """There is no such profile, or its file is malformed."""

    code = "invalid_profile"
