"""command: a program with its arguments, never through a shell, with limits on everything it could use up."""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.limits import limited
from harness.saga.checks.base import (
    CheckContext,
    Unreadable,
    Verdict,
    compiled,
    errored,
    failed,
    located,
    passed,
)
from harness.saga.model import Criterion
from harness.saga.values import as_number

MAX_SECONDS = 600
DEFAULT_SECONDS = 60
KEPT = 64_000
"""Bytes of output that are kept; the rest is read and dropped."""
SHOWN = 400


@dataclass(frozen=True)
class Finished:
    """How a program ended; `code` is None if it ran out of time."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float


def check_command(criterion: Criterion, context: CheckContext) -> Verdict:
    """The program ends with the exit code, and its output holds the pattern if one is named."""
    if not context.commands:
        return failed(f"refused by policy: {context.refusal}", refused=True)
    try:
        argv = arguments_of(criterion)
        folder = _folder(criterion, context)
        pattern = compiled(str(criterion["stdoutPattern"])) if criterion.get("stdoutPattern") else None
    except Unreadable as error:
        return errored(str(error))
    if argv[0] not in context.programs:
        known = ", ".join(context.programs) or "none"
        return failed(f"refused by policy: {argv[0]!r} is not among the allowed programs ({known})", refused=True)
    given = as_number(criterion.get("timeoutSec"))
    seconds = min(MAX_SECONDS, given if given is not None and given > 0 else DEFAULT_SECONDS)
    done = run_limited(argv, folder, seconds)
    tail = (done.out + done.err)[-SHOWN:].decode("utf-8", "replace").strip()
    evidence = {"argv": argv, "exit": done.code, "seconds": round(done.seconds, 3), "output": tail}
    if done.code is None:
        return failed(f"timeout after {seconds} s: {shlex.join(argv)}: {tail}", **evidence)
    expected = as_number(criterion.get("expectExit")) or 0
    if done.code != expected:
        return failed(f"exit code {done.code}, expected {expected}: {shlex.join(argv)}: {tail}", **evidence)
    if pattern is not None and not pattern.search(done.out.decode("utf-8", "replace")):
        wanted = criterion["stdoutPattern"]
        return failed(f"exit code {done.code}, but the output does not match {wanted!r}: {tail}", **evidence)
    return passed(f"exit code {done.code}: {shlex.join(argv)}", **evidence)


def arguments_of(criterion: Criterion) -> list[str]:
    """The program and its arguments; raises Unreadable if there are none."""
    given: Any = criterion.get("argv")
    if given is None:
        text = criterion.get("command")
        if not isinstance(text, str):
            raise Unreadable("the criterion names no command")
        try:
            given = shlex.split(text)
        except ValueError as error:
            raise Unreadable(f"command {text[:120]!r} cannot be split into arguments: {error}") from None
    if not isinstance(given, list) or not given or not all(isinstance(a, str) and "\0" not in a for a in given):
        raise Unreadable("the criterion names no command")
    return given


def _folder(criterion: Criterion, context: CheckContext) -> Path:
    """The working folder: that of the artefacts, or one inside that is no link."""
    if criterion.get("cwd") in (None, "", ".", "artifacts"):
        return context.artifacts
    folder = context.artifacts
    for part in located(criterion["cwd"]).split("/"):
        folder /= part
        if folder.is_symlink() or not folder.is_dir():
            raise Unreadable(f"cwd {criterion['cwd']!r} is no folder among the artifacts")
    return folder


def run_limited(argv: list[str], folder: Path, seconds: float) -> Finished:
    """Run a program in a session of its own, and end all of it when it is over or out of time."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": os.environ.get("LANG", "C.UTF-8")}
    begin = time.monotonic()
    process = subprocess.Popen(
        limited(argv, cpu_seconds=int(seconds) + 1),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            out, err, in_time = _read(process, begin + seconds)
        finally:
            # What it left behind in its session ends with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Finished(process.returncode if in_time else None, out, err, time.monotonic() - begin)


def _read(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, bool]:
    """The ends of both outputs until the program is over; a child that keeps a pipe open does not hold us."""
    kept = {process.stdout: b"", process.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            over = process.poll() is not None
            ready = selector.select(0 if over else min(0.05, max(0.0, deadline - time.monotonic())))
            if over and not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                kept[key.fileobj] = (kept[key.fileobj] + chunk)[-KEPT:]  # type: ignore[index]
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return kept[process.stdout], kept[process.stderr], process.poll() is not None
