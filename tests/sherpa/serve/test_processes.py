"""Tokens, and processes that own, are owned, come back or stay away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sherpa.errors import ConfigError, OperationError
from sherpa.serve.backend import Backoff, Gone, persist
from sherpa.serve.guard import Guard, is_loopback
from sherpa.serve.managed import ManagedDaemon
from sherpa.serve.operations import OPERATIONS
from sherpa.serve.tokens import FILE, own_token, read_token
from tests.contract.doors import SHERPA, free_port


def test_a_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        tokens = set(threads.map(own_token, [tmp_path / "root"] * 64))
    assert len(tokens) == 1
    (token,) = tokens
    assert len(token) >= 32
    path = tmp_path / "root" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == [FILE]
    path.chmod(0o644)
    assert own_token(tmp_path / "root") == token
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough", "ünï" * 10])
def test_what_is_no_token_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=FILE):
        read_token(tmp_path / FILE)


def test_no_wildcard_opens_the_door() -> None:
    with pytest.raises(ConfigError, match="one by one"):
        Guard.of("a-token-of-some-length", ["*"])
    with pytest.raises(ConfigError, match="one by one"):
        Guard.of("a-token-of-some-length", [], ["http://*"])
    assert "a-token" not in repr(Guard.of("a-token-of-some-length"))


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.9.9.9", True), ("0.0.0.0", False),
                      ("::", False), ("192.168.1.2", False), ("example.org", False)],
)  # fmt: skip
def test_which_addresses_are_of_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_listening_for_others_needs_a_token_that_was_named(tmp_path: Path) -> None:
    command = [*SHERPA, "--root", str(tmp_path / "root"), "serve", "--host", "0.0.0.0", "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "SHERPA_TOKEN"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
    assert done.returncode == 2
    assert "--token-file" in done.stderr
    assert not (tmp_path / "root").exists()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [*SHERPA, "--root", str(tmp_path), "serve", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


class Attempts:
    """Fails as it is told, and notes the pauses."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.pauses: list[float] = []
        self.calls = 0

    def __call__(self, left: float) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_pauses_double_to_five_seconds() -> None:
    pauses = Backoff()
    assert [pauses.following() for _ in range(7)] == [0.25, 0.5, 1, 2, 4, 5, 5]
    pauses.reset()
    assert pauses.following() == 0.25


def test_a_lost_answer_is_asked_for_again_unless_it_may_not_be() -> None:
    attempt = Attempts(Gone("away", sent=True), OperationError("overloaded", "full"), Gone("away", sent=False))
    assert persist(OPERATIONS["ingest_event"], 60, attempt, attempt.pauses.append) == "done"
    assert attempt.pauses == [0.25, 1.0, 0.5]
    once = Attempts(Gone("away", sent=True))
    with pytest.raises(OperationError, match="not known") as failed:
        persist(OPERATIONS["forget"], 60, once, once.pauses.append)
    assert (failed.value.code, once.calls) == ("backend_unavailable", 1)
    unsent = Attempts(Gone("away", sent=False))
    assert persist(OPERATIONS["forget"], 60, unsent, unsent.pauses.append) == "done"
    refused = Attempts(OperationError("not_found", "no"))
    with pytest.raises(OperationError, match="no"):
        persist(OPERATIONS["next"], 60, refused, refused.pauses.append)
    assert refused.calls == 1
    tired = Attempts(*[Gone("away", sent=False)] * 9)
    with pytest.raises(OperationError, match="away"):
        persist(OPERATIONS["next"], 0.0, tired, tired.pauses.append)


def daemon_command(root: Path, port: int) -> list[str]:
    return [*SHERPA, "--root", str(root), "serve", "--port", str(port), "--owned"]


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not runs(pid)


def test_a_daemon_is_started_watched_started_again_and_ended(tmp_path: Path) -> None:
    port = free_port()
    owner = ManagedDaemon(daemon_command(tmp_path, port), "127.0.0.1", port)
    owner.ensure(30)
    first = owner.pid
    assert first is not None
    guest = ManagedDaemon(["this program does not exist"], "127.0.0.1", port)
    guest.ensure(30)
    assert guest.pid is None
    guest.close()
    assert runs(first), "a daemon that was there before is left alone"
    os.kill(first, signal.SIGKILL)
    assert gone_within(first, 10)
    owner.ensure(30)
    second = owner.pid
    assert second not in (None, first)
    owner.close()
    assert gone_within(second or 0, 10)
    with pytest.raises(Gone):
        owner.ensure(1)


def test_one_that_cannot_start_is_not_started_again_and_again(tmp_path: Path) -> None:
    now = [0.0]
    starts: list[float] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    marker = tmp_path / "started"
    command = [sys.executable, "-c", f"open({str(marker)!r}, 'a').write('x')"]
    owner = ManagedDaemon(command, "127.0.0.1", free_port(), clock=lambda: now[0], sleep=sleep)
    original = owner._start

    def noted() -> None:
        starts.append(now[0])
        original()
        assert owner._process is not None
        owner._process.wait()

    owner._start = noted  # type: ignore[method-assign]
    with pytest.raises(Gone, match="no daemon answers"):
        owner.ensure(12)
    gaps = [b - a for a, b in pairwise(starts)]
    assert len(starts) == 6
    for gap, least in zip(gaps, (0.25, 0.5, 1, 2, 4), strict=True):
        assert least <= gap < least + 0.2
    owner.close()


OWNER = """
import sys, time
from sherpa.serve.managed import ManagedDaemon
owner = ManagedDaemon(sys.argv[2:], "127.0.0.1", int(sys.argv[1]))
owner.ensure(30)
print(owner.pid, flush=True)
time.sleep(60)
"""


def test_a_daemon_ends_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-c", OWNER, str(port), *daemon_command(tmp_path, port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert runs(pid)
        owner.kill()
        owner.wait()
    assert gone_within(pid, 15)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage", "invalid_request"),
        (b"[1]", "invalid_request"),
        (b'{"id":1,"operation":"nothing"}', "unknown_operation"),
        (b'{"id":1,"operation":"next","params":{"caseId":1}}', "invalid_parameters"),
        (b'{"id":1,"operation":"status","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_request"),
        (b'{"id":1,"operation":"status","params":"' + b"x" * (17 * 2**20) + b'"}', "too_large"),
        (b"\xff\xfe", "invalid_request"),
    ],
)
def test_a_child_answers_what_is_no_request_and_goes_on(line: bytes, code: str, tmp_path: Path) -> None:
    import json

    text = line + b'\n\n{"id":"last","operation":"status"}\n'
    done = subprocess.run(
        [*SHERPA, "--root", str(tmp_path), "serve", "--stdio"], input=text, capture_output=True, timeout=60, check=False
    )
    answers: list[dict[str, Any]] = [json.loads(found) for found in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id["last"]["result"]["events"] == 0
    (refused,) = (answer for answer in answers if answer["id"] != "last")
    assert refused["error"]["code"] == code
    assert len(refused["error"]["message"]) < 1_000
