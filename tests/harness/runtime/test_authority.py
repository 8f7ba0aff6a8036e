"""Grants: access and delegation. Acceptance checks 18 to 28 and 30; the escape list."""

from __future__ import annotations

import os
import socket
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runtime.authority import authority_covers, missing_powers, path_within_grants, token_within_grants
from harness.runtime.confinement import Confinement, pin
from harness.runtime.errors import AuthorityError, EscapeError
from harness.runtime.ir import Authority


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "src" / "pkg").mkdir(parents=True)
    (home / "src_secret").mkdir()
    (home / "src" / "a.txt").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return home


def confined(workspace: Path, *patterns: str) -> Confinement:
    authority = Authority(fs_read=patterns, fs_write=patterns)
    return Confinement(workspace, [authority], pin(authority, workspace))


@pytest.mark.parametrize("grant", ["src", "src/", "src/*", "src/**"])
def test_018_a_subtree_and_nothing_beside_it(workspace: Path, grant: str) -> None:
    assert path_within_grants([grant], "src/a.txt", workspace)
    for path in ("/etc/passwd", "../../x", "src/../../x", "a.txt", "src/../src_secret/x"):
        assert not path_within_grants([grant], path, workspace)


def test_019_a_link_that_leads_out(workspace: Path) -> None:
    (workspace / "src" / "link").symlink_to(workspace.parent / "outside")
    assert not path_within_grants(["src/**"], "src/link/secret.txt", workspace)
    with pytest.raises(AuthorityError):
        confined(workspace, "src/**").read("src/link/secret.txt")


def test_020_one_segment(workspace: Path) -> None:
    assert not path_within_grants(["src/*"], "src/pkg/x", workspace)
    assert path_within_grants(["src/**"], "src/pkg/x", workspace)
    assert path_within_grants(["src/**"], "src", workspace)
    assert not path_within_grants(["src/*"], "src", workspace)


def test_021_a_name_is_no_prefix_of_another(workspace: Path) -> None:
    for grant in ("src", "src/", "src/**", "src/*"):
        assert not path_within_grants([grant], "src_secret/x", workspace)


def test_022_nothing_is_granted_by_nothing(workspace: Path) -> None:
    for grants in ([], [""], ["."], ["/"], ["../**"], ["src/.."], ["~"]):
        assert not path_within_grants(grants, "src/a.txt", workspace)


def test_023_the_workspace_and_everything(workspace: Path, tmp_path: Path) -> None:
    outside = str(tmp_path / "outside" / "secret.txt")
    assert path_within_grants(["**"], "src/a.txt", workspace)
    assert path_within_grants(["**"], "anything/at/all", workspace)
    assert not path_within_grants(["**"], outside, workspace)
    assert path_within_grants(["/**"], outside, workspace)
    assert path_within_grants([f"{tmp_path}/outside/**"], outside, workspace)
    for never in ("/proc/self/environ", "/dev/null", "/sys/kernel"):
        assert not path_within_grants(["/**"], never, workspace)


def test_024_a_relative_workspace_answers_the_same(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace.parent)
    grants = ["src", "src/*", "src/**", "**", "/**", "src/a.txt"]
    paths = ["src/a.txt", "src/pkg/x", "../outside/secret.txt", "/etc/passwd", str(workspace / "src" / "a.txt")]
    for grant, path in product(grants, paths):
        there = path_within_grants([grant], path, workspace)
        assert path_within_grants([grant], path, Path("home")) == there
    assert path_within_grants(["src"], str(workspace / "src" / "a.txt"), Path("home"))


def test_025_a_single_file(workspace: Path) -> None:
    assert path_within_grants(["src/a.txt"], "src/a.txt", workspace)
    for path in ("src/b.txt", "src", "src/a.txt.bak", "src/a"):
        assert not path_within_grants(["src/a.txt"], path, workspace)


@pytest.mark.parametrize(
    ("parent", "child", "covered"),
    [
        ("src/**", "**", False),
        ("src/**", "/etc/**", False),
        ("src/**", "src/../x", False),
        ("src/**", "src_secret/**", False),
        ("src/**", "src/pkg/**", True),
        ("src/**", "src/a.txt", True),
        ("src", "src/pkg/*", True),
        ("src/", "src/**", True),
        ("src/*", "src/**", False),
        ("src/*", "src/pkg/*", False),
        ("src/*", "src/*.txt", True),
        ("**", "src/**", True),
        ("**", "/srv/**", False),
        ("/**", "src/**", True),
        ("/**", "/etc/**", True),
        ("**", "/**", False),
        ("/srv/**", "/**", False),
        ("/srv/**", "/srv/x/**", True),
        ("/srv/**", "srv/x", False),
        ("src/*.txt", "src/*.txt", True),
    ],
)
@pytest.mark.parametrize("dimension", ["fs_read", "fs_write"])
def test_026_delegation_of_paths(parent: str, child: str, covered: bool, dimension: str) -> None:
    outer, inner = Authority(**{dimension: (parent,)}), Authority(**{dimension: (child,)})
    assert authority_covers(outer, inner) is covered
    assert missing_powers(outer, inner) == ([] if covered else [f"{dimension}:{child}"])


def test_026_delegation_of_each_dimension() -> None:
    full = Authority(
        fs_read=("src/**",), fs_write=("out",), net_domains=("*.example.com",), subprocess_allow=("python",)
    )
    assert authority_covers(full, full)
    assert authority_covers(full, Authority())
    assert authority_covers(Authority(), Authority())
    for dimension in ("fs_read", "fs_write", "net_domains", "subprocess_allow"):
        assert not authority_covers(full, Authority(**{dimension: ("other",)}))
        assert not authority_covers(Authority(), Authority(**{dimension: getattr(full, dimension)}))
    assert not authority_covers(full, Authority(subprocess_allow=("python-evil",)))


PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "**", "*.t", "a.t", ".."]), min_size=1, max_size=4).flatmap(
    lambda parts: st.sampled_from(["/".join(parts), "/" + "/".join(parts)])
)


@given(PATTERNS, PATTERNS, PATTERNS)
def test_026_delegation_is_transitive_and_reflexive(a: str, b: str, c: str) -> None:
    one, two, three = (Authority(fs_read=(text,)) for text in (a, b, c))
    assert authority_covers(one, one) == (".." not in a.split("/"))
    if authority_covers(one, two) and authority_covers(two, three):
        assert authority_covers(one, three)


@given(PATTERNS, PATTERNS, st.lists(st.sampled_from(["a", "b", "a.t", "c"]), min_size=1, max_size=4))
def test_026_what_is_covered_reaches_no_further(parent: str, child: str, path: list[str]) -> None:
    home = Path("/nowhere/home")
    for requested in ("/".join(path), "/" + "/".join(path)):
        covered = authority_covers(Authority(fs_read=(parent,)), Authority(fs_read=(child,)))
        if covered and path_within_grants([child], requested, home):
            assert path_within_grants([parent], requested, home)


def test_027_hosts_match_as_a_whole() -> None:
    assert token_within_grants(["*.example.com"], "api.example.com")
    for host in ("example.com.evil.net", "api.example.com.evil.net", "example.com", "", "evilexample.com"):
        assert not token_within_grants(["*.example.com"], host)
    assert not token_within_grants(["", "python"], "python-evil")
    for wanted, covered in [
        ("*.api.example.com", True),
        ("api.example.com", True),
        ("*.example.org", False),
        ("*", False),
    ]:
        outer, inner = Authority(net_domains=("*.example.com",)), Authority(net_domains=(wanted,))
        assert authority_covers(outer, inner) is covered


@pytest.mark.parametrize(
    ("parent", "child"),
    [("src/*.txt", "src/evil.py"), ("src/**/safe.txt", "src/x"), ("/**/x", "/etc/passwd"), ("src/*", "src/x")],
)
def test_028_segments_with_wildcards_are_not_forgotten(parent: str, child: str) -> None:
    assert not authority_covers(Authority(fs_write=(parent,)), Authority(fs_write=(child,)))


def test_030_a_root_exchanged_for_a_link(workspace: Path) -> None:
    held = confined(workspace, "src/**")
    assert held.read("src/a.txt") == b"inside"
    os.rename(workspace / "src", workspace / "old")
    (workspace / "src").symlink_to(workspace.parent / "outside")
    with pytest.raises(AuthorityError):
        held.read("src/secret.txt")
    with pytest.raises(AuthorityError):
        held.write("src/new.txt", b"x")
    (workspace / "src").unlink()
    (workspace / "src").mkdir()
    (workspace / "src" / "a.txt").write_text("another folder of this name")
    with pytest.raises(AuthorityError):
        held.read("src/a.txt")


def test_030_a_root_that_was_missing_and_comes_as_a_link(workspace: Path) -> None:
    held = confined(workspace, "out/**")
    (workspace / "out").symlink_to(workspace.parent / "outside")
    with pytest.raises(AuthorityError):
        held.write("out/x", b"x")
    assert [p.name for p in (workspace.parent / "outside").iterdir()] == ["secret.txt"]


# -- the escape list -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "SRC/a.txt",
        "src /a.txt",
        "ｓrc/a.txt",
        "ѕrc/a.txt",
        "src\u200b/a.txt",
        "src/a.txt\0",
        "src/\n",
        "",
        "/proc/self/root/etc/passwd",
        "src/pkg/../../src_secret/x",
        "~/x",
    ],
)
def test_escapes_by_name_are_refused(workspace: Path, path: str) -> None:
    held = confined(workspace, "src/**")
    with pytest.raises(AuthorityError):
        held.read(path)
    with pytest.raises(AuthorityError):
        held.write(path, b"x")
    assert sorted(p.name for p in workspace.iterdir()) == ["src", "src_secret"]


def test_hard_links_are_refused(workspace: Path) -> None:
    os.link(workspace.parent / "outside" / "secret.txt", workspace / "src" / "hard.txt")
    held = confined(workspace, "src/**")
    for use in (lambda: held.read("src/hard.txt"), lambda: held.write("src/hard.txt", b"x")):
        with pytest.raises(EscapeError, match="names"):
            use()
    assert (workspace.parent / "outside" / "secret.txt").read_text() == "secret"


def test_special_files_are_refused_without_waiting(workspace: Path) -> None:
    os.mkfifo(workspace / "src" / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(workspace / "src" / "door"))
    held = confined(workspace, "src/**", "/**")
    for name in ("src/pipe", "src/door"):
        with pytest.raises(EscapeError):
            held.read(name)
        with pytest.raises(EscapeError):
            held.write(name, b"x")
    listener.close()
    with pytest.raises(EscapeError):
        held.write("/dev/null", b"x")


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_link_put_there_between_check_and_use(workspace: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    held = confined(workspace, "src/**")
    checked = Confinement.check_path
    outside = workspace.parent / "outside"

    def and_then(self: Confinement, dimension: str, requested: str) -> Path:
        path = checked(self, dimension, requested)  # type: ignore[arg-type]
        if what == "folder":
            os.rename(workspace / "src", workspace / "gone")
            (workspace / "src").symlink_to(outside)
        else:
            (workspace / "src" / "secret.txt").symlink_to(outside / "secret.txt")
        monkeypatch.undo()
        return path

    monkeypatch.setattr(Confinement, "check_path", and_then)
    with pytest.raises(AuthorityError):
        held.read("src/secret.txt")
    if what == "folder":
        (workspace / "src").unlink()
        os.rename(workspace / "gone", workspace / "src")
    else:
        (workspace / "src" / "secret.txt").unlink()
    monkeypatch.setattr(Confinement, "check_path", and_then)
    with pytest.raises(AuthorityError):
        held.write("src/secret.txt", b"overwritten")
    assert (outside / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("path", ["sherpa.db", "sherpa.db-wal", "blobs/objects/00/x", "src/../sherpa.db"])
def test_the_record_of_the_runtime_is_out_of_reach(workspace: Path, path: str) -> None:
    held = confined(workspace, "**", "/**")
    with pytest.raises(EscapeError, match="record"):
        held.write(path, b"x")
    with pytest.raises(EscapeError, match="record"):
        held.read(path)
    assert sorted(p.name for p in workspace.iterdir()) == ["src", "src_secret"]


def test_every_authority_on_the_stack_must_allow(workspace: Path) -> None:
    held = confined(workspace, "src/**").narrowed(Authority(fs_read=("**",), fs_write=("src/pkg",)))
    assert held.read("src/a.txt") == b"inside"
    held.write("src/pkg/new/deep.txt", b"x")
    with pytest.raises(AuthorityError):
        held.write("src/b.txt", b"x")
    with pytest.raises(AuthorityError):
        held.read("src_secret/x")
    assert not held.narrowed(Authority()).granted("fs_read")
    assert held.narrowed(None) is held
    assert isinstance(AuthorityError("x"), PermissionError)


def test_a_write_is_whole_and_leaves_nothing_beside(workspace: Path) -> None:
    held = confined(workspace, "src/**")
    held.write("src/a.txt", b"new")
    assert (workspace / "src" / "a.txt").read_bytes() == b"new"
    assert sorted(p.name for p in (workspace / "src").iterdir()) == ["a.txt", "pkg"]
    assert [e["name"] for e in held.list("src")] == ["a.txt", "pkg"]
