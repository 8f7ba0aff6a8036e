"""``python -m sherpa``."""

from sherpa.cli.main import main

main()
