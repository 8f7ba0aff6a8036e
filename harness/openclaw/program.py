"""OpenClaw as an installed program: installed from npm at a pinned version, configured and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sherpa.errors import SherpaError
from sherpa.files import write_whole

NODE, OPENCLAW = "node@26", "openclaw@2026.9.6"
_INSTALL_SECONDS, _RUN_SECONDS = 1200, 180


class InstallError(SherpaError):
    """OpenClaw cannot be installed here."""


@dataclass(frozen=True)
class OpenClaw:
    """An installation of the program.

    Attributes
    ----------
    node, script : Path
        What runs it.
    home : Path
        Its HOME; ``.openclaw`` below it is its state directory.
    """

    node: Path
    script: Path
    home: Path

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.home / ".openclaw"

    def configure(self, model_url: str, workspace: Path) -> None:
        """Let it use a model at an address, and work in a folder."""
        model = {"id": "scripted", "name": "scripted", "contextWindow": 128_000, "maxTokens": 4096}
        provider = {"baseUrl": model_url, "apiKey": "none", "api": "openai-completions", "models": [model]}
        config = {
            "agents": {
                "defaults": {
                    "workspace": str(workspace),
                    "skipBootstrap": True,
                    "model": {"primary": "scripted/scripted"},
                }
            },
            "tools": {"toolSearch": False},
            "models": {"mode": "merge", "providers": {"scripted": provider}},
        }
        workspace.mkdir(parents=True, exist_ok=True)
        write_whole(self.state / "openclaw.json", json.dumps(config).encode())

    def start(self, session: str, message: str) -> subprocess.Popen[str]:
        """Begin one turn of the agent."""
        return subprocess.Popen(
            [str(self.node), str(self.script), "agent", "--local", "--session-id", session, "-m", message],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, session: str, message: str) -> str:
        """One turn of the agent; returns what it printed.

        Raises
        ------
        SherpaError
            If it fails or takes longer than three minutes.
        """
        process = self.start(session, message)
        try:
            out, _ = process.communicate(timeout=_RUN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            raise SherpaError(f"openclaw agent did not end within {_RUN_SECONDS} s: {out[-2000:]}") from None
        if process.returncode:
            raise SherpaError(f"openclaw agent ended with {process.returncode}: {out[-2000:]}")
        return out

    def environment(self) -> dict[str, str]:
        """Variables that it is run with: its own HOME, and no proxy or profile of the user."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        path = f"{self.node.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        return {**kept, "PATH": path, "HOME": str(self.home), "NO_COLOR": "1"}


def install(folder: Path, home: Path) -> OpenClaw:
    """Install the pinned versions of Node and OpenClaw below a folder, unless they are there.

    Raises
    ------
    InstallError
        If there is no npm, or it cannot fetch them.
    """
    node = folder / "node_modules" / "node" / "bin" / "node"
    script = folder / "node_modules" / "openclaw" / "openclaw.mjs"
    if not (node.is_file() and script.is_file()):
        npm = shutil.which("npm")
        if npm is None:
            raise InstallError("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "package.json").exists():
            (folder / "package.json").write_text('{"private": true}\n')
        _call([npm, "install", "--no-audit", "--no-fund", NODE], folder)
        root = _call([npm, "root", "-g"], folder).strip()
        # OpenClaw refuses to be installed by an old Node; npm itself runs under any.
        program = Path(root) / "npm" / "bin" / "npm-cli.js"
        _call([str(node), str(program), "install", "--no-audit", "--no-fund", OPENCLAW], folder)
        if not script.is_file():
            raise InstallError(f"npm did not install {OPENCLAW}")
    return OpenClaw(node, script, home)


def _call(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{' '.join(command[:3])}: {error}") from None
    if done.returncode:
        raise InstallError(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout
