"""Capabilities that touch files: read, write, list, patch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Need
from harness.runtime.confinement import Confinement, check_replaceable, folder_at, write_at
from harness.runtime.errors import CapabilityError, EscapeError, PatchError
from harness.runtime.patch import FilePatch, apply_hunks, parse_diff

_TEXT = {"type": "string"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


class ReadFile(Capability):
    """Content of a text file."""

    spec = CapabilitySpec(
        name="fs.read_file",
        description="The text of a file.",
        input_schema=_object(path=_TEXT),
        output_schema=_object(content=_TEXT),
        requires=("fs_read",),
        idempotent=True,
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return [("fs_read", inputs["path"])]

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        # A file that is missing now may be there when the step runs, but the grant must hold.
        context.confinement.check_path("fs_read", inputs["path"])
        return b"readable"

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        return {"content": _read(context.confinement, inputs["path"])}


def _read(confinement: Confinement, path: str) -> str:
    try:
        return confinement.read(path).decode("utf-8")
    except EscapeError:
        raise
    except UnicodeDecodeError:
        raise CapabilityError(f"{path} is no UTF-8 text") from None
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise CapabilityError(f"{path} cannot be read: {error.strerror}") from None


class WriteFile(Capability):
    """Writes a text file whole."""

    spec = CapabilitySpec(
        name="fs.write_file",
        description="Writes a file; missing folders are made.",
        input_schema=_object(path=_TEXT, content=_TEXT),
        output_schema=_object(bytes_written={"type": "integer"}),
        requires=("fs_write",),
        idempotent=True,
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return [("fs_write", inputs["path"])]

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        return context.confinement.probe_write(inputs["path"])

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        return {"bytes_written": context.confinement.write(inputs["path"], inputs["content"].encode())}


class ListDir(Capability):
    """Entries of a folder."""

    spec = CapabilitySpec(
        name="fs.list_dir",
        description="Names, kinds and sizes in a folder, sorted.",
        input_schema=_object(path=_TEXT),
        output_schema=_object(entries={"type": "array"}),
        requires=("fs_read",),
        idempotent=True,
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return [("fs_read", inputs["path"])]

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        try:
            return {"entries": context.confinement.list(inputs["path"])}
        except FileNotFoundError:
            raise CapabilityError(f"{inputs['path']} does not exist") from None


class ApplyPatch(Capability):
    """Applies a unified diff to all its files or to none."""

    spec = CapabilitySpec(
        name="repo.apply_patch",
        description="Applies a strict unified diff below a folder.",
        input_schema=_object(cwd=_TEXT, diff=_TEXT),
        output_schema=_object(applied={"type": "boolean"}, files={"type": "array"}),
        requires=("fs_write",),
    )

    def needs(self, inputs: Inputs, context: Context) -> list[Need]:
        return [("fs_write", path) for _, path in self._targets(inputs)]

    def _targets(self, inputs: Inputs) -> list[tuple[FilePatch, str]]:
        targets = []
        for patch in parse_diff(inputs["diff"]):
            if patch.path.startswith("/") or ".." in patch.path.split("/"):
                raise EscapeError(f"{patch.path} lies outside of {inputs['cwd']}")
            targets.append((patch, os.path.join(inputs["cwd"], patch.path)))
        return targets

    def probe(self, inputs: Inputs, context: Context) -> bytes:
        # The inputs may name a diff that an earlier step makes, so that it applies is found out by the step itself.
        for _, path in self._targets(inputs):
            context.confinement.check_path("fs_write", path)
        return b"authorised"

    def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
        confinement = context.confinement
        base = Path(os.path.realpath(confinement.workspace / inputs["cwd"]))
        changes: list[tuple[Path, bytes | None, bytes | None]] = []
        for patch, path in self._targets(inputs):
            resolved = confinement.check_path("fs_write", path)
            if not resolved.is_relative_to(base):
                raise EscapeError(f"{path} lies outside of {inputs['cwd']}")
            before = self._before(confinement, path)
            try:
                text = None if before is None else before.decode("utf-8")
            except UnicodeDecodeError:
                raise PatchError(f"{path} is no UTF-8 text") from None
            after = apply_hunks(text, patch)
            changes.append((resolved, before, None if after is None else after.encode()))
        _exchange(changes)
        for resolved, _, _ in changes:
            _forget_bytecode(resolved)
        return {"applied": True, "files": [str(path.relative_to(base)) for path, _, _ in changes]}

    @staticmethod
    def _before(confinement: Confinement, path: str) -> bytes | None:
        try:
            return confinement.read(path, "fs_write")
        except EscapeError:
            raise
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PatchError(f"{path} cannot be read: {error.strerror}") from None


def _exchange(changes: list[tuple[Path, bytes | None, bytes | None]]) -> None:
    """Give files their new content, or none of them: drafts first, then renames, which are undone if one fails."""
    drafts: list[str] = []
    done: list[tuple[Path, bytes | None]] = []
    try:
        for path, _, after in changes:
            with folder_at(path.parent, make=after is not None) as folder:
                check_replaceable(folder, path.name)
                drafts.append(f".{path.name[:100]}.{uuid4().hex}.tmp")
                if after is not None:
                    write_at(folder, drafts[-1], after)
        for (path, before, after), draft in zip(changes, drafts, strict=True):
            with folder_at(path.parent) as folder:
                if after is None:
                    os.unlink(path.name, dir_fd=folder)
                else:
                    os.replace(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            done.append((path, before))
    except BaseException:
        for path, before in reversed(done):
            with folder_at(path.parent) as folder:
                with suppress(FileNotFoundError):
                    os.unlink(path.name, dir_fd=folder)
                if before is not None:
                    write_at(folder, path.name, before)
        raise
    finally:
        for (path, _, _), draft in zip(changes, drafts, strict=False):
            with suppress(OSError):
                (path.parent / draft).unlink()


def _forget_bytecode(module: Path) -> None:
    """Compiled files of a module: one of the same size and second would be taken for fresh."""
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        with suppress(OSError):
            compiled.unlink()
