"""OpenClaw itself as a place to test: installed from npm, run offline against a scripted model."""
