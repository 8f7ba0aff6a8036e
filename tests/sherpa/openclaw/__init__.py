"""Sessions of OpenClaw."""
