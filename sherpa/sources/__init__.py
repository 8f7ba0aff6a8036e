"""Readers of event logs: one module per format."""
