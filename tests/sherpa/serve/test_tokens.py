"""The token's file: its owner's alone, made once, and refused when it holds none."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from sherpa.errors import ConfigError
from sherpa.serve.tokens import FILE, own_token, read_token


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_for_its_owner_alone_and_kept(tmp_path: Path) -> None:
    root = tmp_path / "new" / "memory"
    os.umask(umask := os.umask(0))
    assert umask != 0, "the mode would be that of the umask"
    token = own_token(root)
    assert mode(root / FILE) == 0o600
    assert len(token) >= 32
    assert own_token(root) == read_token(root / FILE) == token
    assert [path.name for path in root.iterdir()] == [FILE]
    assert own_token(tmp_path / "other") != token


def test_under_a_wide_umask_it_is_its_owners_alone_too(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        own_token(tmp_path)
    finally:
        os.umask(former)
    assert mode(tmp_path / FILE) == 0o600


def test_not_even_while_it_is_made_can_others_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    link = os.link
    monkeypatch.setattr(os, "link", lambda draft, path: seen.append(mode(Path(draft))) or link(draft, path))
    former = os.umask(0)
    try:
        own_token(tmp_path)
    finally:
        os.umask(former)
    assert seen == [0o600]


@pytest.mark.parametrize("wide", [0o644, 0o660, 0o604, 0o777])
def test_a_file_that_others_can_read_is_tightened(wide: int, tmp_path: Path) -> None:
    token = own_token(tmp_path)
    (tmp_path / FILE).chmod(wide)
    assert own_token(tmp_path) == token
    assert mode(tmp_path / FILE) == 0o600


def test_makers_at_the_same_time_agree(tmp_path: Path) -> None:
    barrier = threading.Barrier(16)
    found: list[str] = []

    def make() -> None:
        barrier.wait()
        found.append(own_token(tmp_path))

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert set(found) == {read_token(tmp_path / FILE)}
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"short", b"two words that are long", b"\xff\xfe" * 20, b"line one is long\nline two", b"\0" * 40],
)
def test_a_file_that_holds_none_is_named_and_left(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=FILE):
        own_token(tmp_path)
    assert path.read_bytes() == content


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        read_token(tmp_path / "absent")


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match=FILE):
        own_token(tmp_path)
