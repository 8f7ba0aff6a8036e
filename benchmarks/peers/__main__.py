"""``python -m benchmarks.peers FOLDER``: make the environment of the peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = (
    "numpy==2.4.6",
    "ctxchain==0.1.0",
    "vlmc==0.3.0",
    "knlm==0.1.2",
    "tokengrams==0.3.3",
    "logicsponge-processmining==0.0.5",
    "pm4py",
)


def main() -> int:
    """Create the environment and install every peer; a peer that cannot be installed is named and left out."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    missing = []
    for package in PACKAGES:
        done = subprocess.run([str(folder / "bin" / "pip"), "install", "-q", package], check=False)
        if done.returncode:
            missing.append(package)
    print(f"python: {folder / 'bin' / 'python'}")
    if missing:
        print(f"not installed: {', '.join(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
