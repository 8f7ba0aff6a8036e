"""Schemathesis looks for requests on which the OpenAPI document and the daemon disagree, and finds none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.doors import daemon

# How many bytes ten thousand events may have together, a schema cannot say: 413 is a fair answer to a valid request.
# Nor does it say which signals of a saga exclude each other, or which sagas there are.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "413"]

[[operations]]
include-path = "/v1/saga_advance"
checks.positive_data_acceptance.enabled = false
warnings = false

[[operations]]
include-path = ["/v1/saga_cancel", "/v1/saga_status"]
warnings = false
"""


@pytest.mark.parametrize("examples", [15, pytest.param(150, marks=pytest.mark.full)])
def test_document_and_daemon_agree(examples: int, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    with daemon(tmp_path / "root") as (url, token):
        options = ["--max-examples", str(examples), "--generation-deterministic", "--no-color"]
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", *options]
        command += ["--header", f"Authorization: Bearer {token}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "No issues found" in done.stdout
