"""Files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sherpa.errors import SourceError
from sherpa.files import write_whole


def everything(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*"))


@pytest.mark.parametrize("before", [None, b"old", b"a much longer old file"])
@pytest.mark.parametrize("data", [b"", b"new\x00\xff"])
def test_a_file_is_written_and_nothing_is_left_beside_it(tmp_path, before, data):
    path = tmp_path / "report.json"
    if before is not None:
        path.write_bytes(before)
    write_whole(path, data)
    assert path.read_bytes() == data
    assert everything(tmp_path) == ["report.json"]


def test_missing_folders_are_made(tmp_path):
    write_whole(tmp_path / "a" / "b" / "report.json", b"new")
    assert (tmp_path / "a" / "b" / "report.json").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_stays_when_writing_fails(tmp_path, monkeypatch, step):
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(SourceError, match="No space left on device") as caught:
        write_whole(path, b"new")
    assert caught.value.file == str(path)
    assert path.read_bytes() == b"old"
    assert everything(tmp_path) == ["report.json"]


def test_the_old_file_stays_when_the_process_is_stopped_halfway(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_bytes(b"old")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_the_data_is_on_disk_before_it_takes_the_place_of_the_old_file(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("fsync"), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("replace"), replace(a, b)))
    write_whole(tmp_path / "report.json", b"new")
    assert done == ["fsync", "replace"]


@pytest.mark.parametrize("blocked", ["report", "file/report"], ids=["a folder is there", "the parent is a file"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, blocked):
    (tmp_path / "report").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(SourceError) as caught:
        write_whole(tmp_path / blocked, b"new")
    assert caught.value.file == str(tmp_path / blocked)
    assert everything(tmp_path) == ["file", "report"]
    assert (tmp_path / "file").read_bytes() == b"old"
