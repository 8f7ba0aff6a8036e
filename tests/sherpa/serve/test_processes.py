"""Processes that own, are owned, come back or stay away; what a child answers to what is no request."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sherpa.serve.backend import Gone
from sherpa.serve.managed import ManagedDaemon
from tests.contract.doors import SHERPA, free_port
from tests.e2e.raw import Target, read_answer


def test_listening_for_others_needs_a_token_that_was_named(tmp_path: Path) -> None:
    command = [*SHERPA, "--root", str(tmp_path / "root"), "serve", "--host", "0.0.0.0", "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "SHERPA_TOKEN"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environment)
    assert done.returncode == 2
    assert "--token-file" in done.stderr
    assert not (tmp_path / "root").exists()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = [*SHERPA, "--root", str(tmp_path), "serve", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "cannot listen" in done.stderr


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


def test_a_child_finishes_what_it_accepted_when_its_input_ends(tmp_path: Path) -> None:
    lines = [
        {
            "id": n,
            "operation": "ingest_event",
            "params": {"eventId": f"e{n}", "caseId": "c", "source": "s", "type": "t"},
        }
        for n in range(200)
    ]
    done = subprocess.run(
        [*SHERPA, "--root", str(tmp_path), "serve", "--stdio"],
        input="\n".join(map(json.dumps, lines)).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in told) == list(range(200))
    assert all(answer["result"]["eventId"] == f"e{answer['id']}" for answer in told)
    assert done.stderr == b""


@pytest.mark.parametrize("end", ["input", "signal"])
def test_a_daemon_answers_what_it_accepted_and_ends_without_a_word(end: str, tmp_path: Path) -> None:
    port = free_port()
    command = [*SHERPA, "--root", str(tmp_path), "serve", "--port", str(port)]
    if end == "input":
        command.append("--owned")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdin is not None
        assert b"listening" in daemon.stdout.readline()
        target = Target(f"http://127.0.0.1:{port}", (tmp_path / "daemon.token").read_text().strip())
        events = [{"caseId": f"c{n % 500}", "source": "s", "type": f"t{n % 7}"} for n in range(4_000)]
        body = json.dumps({"events": events}).encode()
        with target.connect() as connection:
            connection.sendall(target.head("/v1/ingest_batch", Content_Length=str(len(body))) + body)
            time.sleep(0.1)
            if end == "input":
                daemon.stdin.close()
            else:
                daemon.send_signal(signal.SIGTERM)
            assert len(read_answer(connection).json["events"]) == 4_000
        assert daemon.wait(20) in (0, -signal.SIGTERM)
        assert daemon.stdout.read() == b""
        assert daemon.stderr is not None
        assert daemon.stderr.read() == b""


def test_only_a_daemon_that_is_owned_ends_with_its_input(tmp_path: Path) -> None:
    command = [*SHERPA, "--root", str(tmp_path), "serve", "--port", "0"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert b"listening" in daemon.stdout.readline()
        time.sleep(0.3)
        assert daemon.poll() is None
        daemon.terminate()


@pytest.mark.parametrize("token", ["short", "fünfzehn-oder-mehr", "with a space in it"])
def test_a_variable_that_holds_no_token_opens_nothing(token: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*SHERPA, "--root", str(tmp_path), "serve", "--port", "0"],
        env=os.environ | {"SHERPA_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "16 visible ASCII characters" in done.stderr
    assert token not in done.stderr
