"""Is everything there that sagas need: a state root that can be written, profiles, a browser, a memory?"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harness.saga.coordinator import Coordinator
from harness.saga.errors import SagaError
from harness.saga.model import PROFILE_IDS
from harness.saga.profiles import FOLDER, lint


def examine(coordinator: Coordinator) -> list[dict[str, Any]]:
    """Checks with ``name, passed, found``. A browser or a memory that is not there is told, and is no fault."""
    root, options = coordinator.root, coordinator.options
    checks = [{"name": "state root", **_writable(root)}]
    for profile_id in PROFILE_IDS:
        problems = lint(FOLDER / f"{profile_id}-default.json")
        checks.append(
            {"name": f"profile {profile_id}", "passed": not problems, "found": "; ".join(problems) or "clean"}
        )
    browser = shutil.which("chromium")
    checks.append({"name": "browser", "passed": True, "found": browser or "absent: browser checks cannot pass"})
    programs = ", ".join(options.programs) or "none"
    on = f"on: {programs}" if options.commands else "off"
    checks.append({"name": "commands", "passed": True, "found": on})
    broken, damaged = [], 0
    for saga_id in coordinator.store.ids():
        try:
            replayed = coordinator.replay(saga_id)
        except SagaError as error:
            broken.append(f"{saga_id}: {error}")
            continue
        damaged += bool(replayed["problems"])
        if not replayed["identical"]:
            broken.append(f"{saga_id}: snapshot and log differ in {', '.join(replayed['differences'])}")
    found = f"{len(coordinator.store.ids())} sagas, {damaged} with notes on damage"
    checks.append({"name": "sagas", "passed": not broken, "found": "; ".join(broken) or found})
    return checks


def _writable(root: Path) -> dict[str, Any]:
    above = root
    while not above.exists() and above != above.parent:
        above = above.parent
    try:
        with tempfile.NamedTemporaryFile(dir=above, prefix=".saga-probe-"):
            pass
    except OSError as error:
        return {"passed": False, "found": f"{above}: cannot be written: {error.strerror or error}"}
    return {"passed": os.access(above, os.W_OK), "found": str(root.absolute())}
