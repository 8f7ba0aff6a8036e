"""Harnesses: agents that run tasks, and what their runs say."""
