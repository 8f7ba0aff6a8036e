"""What steps can do. Acceptance checks 32 to 48."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.runtime.blobs import BlobStore
from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs, Registry, run_capability
from harness.runtime.channel import RecordedChannel
from harness.runtime.confinement import Confinement, pin
from harness.runtime.errors import (
    AuthorityError,
    CapabilityContractError,
    CapabilityError,
    PatchError,
    UnknownCapability,
)
from harness.runtime.filework import ApplyPatch, ListDir, ReadFile, WriteFile
from harness.runtime.ir import Authority
from harness.runtime.sandbox import run_confined
from harness.runtime.schema import schema_errors
from harness.runtime.store import RunStore
from harness.runtime.testwork import RunTests
from harness.runtime.textwork import IndexDocument, SearchCorpus, Summarize
from tests.harness.runtime.made import Liar, append, call, end, engine, granted, problem

SCOPED = granted(fs_read=["repo/**"], fs_write=["repo/**"], subprocess_allow=["python", "pytest"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "repo").mkdir(parents=True)
    (home / "other").mkdir()
    (home / "other" / "secret.txt").write_text("untouched")
    return home


class Bench:
    """Runs capabilities in a workspace and keeps the log."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.store = RunStore(workspace / "sherpa.db", BlobStore(workspace / "blobs"))
        self.store.append("r", "run_started", {"status": "running", "problem_sha": "0"})

    def context(self, authority: Authority, tapes: dict[str, Any] | None = None) -> Context:
        channel = RecordedChannel(tapes or {})
        confinement = Confinement(self.workspace, [authority], pin(authority, self.workspace))
        return Context(self.store, "r", "n", confinement, channel.complete)

    def run(self, capability: Capability, authority: Authority = SCOPED, **inputs: Any) -> dict[str, Any]:
        return run_capability(capability, inputs, self.context(authority))[0]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.store.events("r")][1:]


@pytest.fixture
def bench(workspace: Path) -> Iterator[Bench]:
    made = Bench(workspace)
    yield made
    made.store.close()


def test_032_files_within_and_beyond_a_grant(bench: Bench, workspace: Path) -> None:
    assert bench.run(WriteFile(), path="repo/a/b.txt", content="ü") == {"bytes_written": 2}
    assert bench.run(ReadFile(), path="repo/a/b.txt") == {"content": "ü"}
    assert bench.run(ListDir(), path="repo")["entries"] == [
        {"name": "a", "is_dir": True, "size": _size(workspace / "repo/a")}
    ]
    secret = workspace / "other" / "secret.txt"
    (workspace / "repo" / "link").symlink_to(secret)
    for path in (str(secret), "repo/../other/secret.txt", "repo/link", "other/secret.txt", "/etc/passwd"):
        with pytest.raises(PermissionError):
            bench.run(ReadFile(), path=path)
        with pytest.raises(PermissionError):
            bench.run(WriteFile(), path=path, content="changed")
    assert secret.read_text() == "untouched"


def _size(path: Path) -> int:
    return path.stat().st_size


def test_033_reading_is_not_writing(bench: Bench, workspace: Path) -> None:
    with pytest.raises(AuthorityError):
        bench.run(WriteFile(), granted(fs_read=["**"]), path="repo/x", content="x")
    assert list((workspace / "repo").iterdir()) == []


CONFTEST = "import pathlib\npathlib.Path(r'{}').write_text('executed')\n"


def test_034_tests_elsewhere_are_not_touched(bench: Bench, workspace: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (workspace / "other" / "conftest.py").write_text(CONFTEST.format(mark))
    for cwd in ("other", "repo/../other", str(workspace / "other"), "/"):
        with pytest.raises(AuthorityError):
            bench.run(RunTests(), cwd=cwd, args=["-q"])
    assert not mark.exists()


def test_034_a_conftest_above_or_behind_a_link_is_not_executed(bench: Bench, workspace: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    (workspace / "conftest.py").write_text(CONFTEST.format(mark))
    (workspace / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (workspace / "repo" / "test_it.py").write_text("def test_it():\n    pass\n")
    assert bench.run(RunTests(), cwd="repo", args=["-q"])["passed"] is True
    assert not mark.exists()
    (workspace / "repo" / "conftest.py").symlink_to(workspace / "conftest.py")
    with pytest.raises(AuthorityError):
        bench.run(RunTests(), cwd="repo", args=["-q"])
    assert not mark.exists()


@pytest.mark.parametrize(
    "args",
    [
        ["-p", "evil"], ["-pevil"], ["-c", "x"], ["--rootdir", "/"], ["--rootdir=/"], ["--confcutdir=/"], ["-o", "x=y"],
        ["--override-ini=x=y"], ["--basetemp=."], ["--basetemp", "x"], ["--junitxml=x"], ["--debug"], ["@file"],
        ["../x"],
        ["/etc"], ["tests/../../x"], ["-P"], ["--import-mode=append"], ["-k"], ["--maxfail=x"], ["--pyargs", "os"],
        ["-q", "-W", "error"], ["--", "-p"], [""], ["a b"],
    ],
)  # fmt: skip
def test_035_arguments_that_lead_elsewhere(bench: Bench, workspace: Path, args: list[str]) -> None:
    (workspace / "repo" / "test_it.py").write_text("open('executed', 'w')\n")
    with pytest.raises(AuthorityError):
        bench.run(RunTests(), cwd="repo", args=args)
    assert not (workspace / "repo" / "executed").exists()


def test_035_arguments_that_do_not(bench: Bench, workspace: Path) -> None:
    (workspace / "repo" / "test_it.py").write_text("def test_one():\n    pass\n\ndef test_two():\n    assert False\n")
    for args, passed in [
        (["-q", "-x", "-k", "one"], True),
        (["-vv", "test_it.py::test_one"], True),
        (["-q", "--maxfail=1"], False),
    ]:
        assert bench.run(RunTests(), cwd="repo", args=args)["passed"] is passed


def test_036_programs_must_be_granted(bench: Bench) -> None:
    for tokens in ([], ["python"], ["pytest"], ["python-evil", "pytest"]):
        with pytest.raises(AuthorityError):
            bench.run(RunTests(), granted(fs_read=["**"], subprocess_allow=tokens), cwd="repo")


@pytest.mark.parametrize(("number", "passed"), [(1, True), (2, False)])
def test_037_tests_are_really_run(bench: Bench, workspace: Path, number: int, passed: bool) -> None:
    (workspace / "repo" / "tests").mkdir()
    (workspace / "repo" / "tests" / "test_it.py").write_text(f"def test_it():\n    assert {number} == 1\n")
    result = bench.run(RunTests(), cwd="repo")
    assert result["passed"] is passed
    assert ("1 passed" if passed else "1 failed") in result["stdout"]
    assert sorted(p.name for p in (workspace / "repo").iterdir()) == ["tests"]


def test_037_the_environment_is_cleaned(bench: Bench, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PYTEST_ADDOPTS": "-p evil",
        "PYTEST_PLUGINS": "evil",
        "PYTHONPATH": "/evil",
        "TOKEN": "x",
    }.items():
        monkeypatch.setenv(name, value)
    names = "{'PYTEST_ADDOPTS', 'PYTEST_PLUGINS', 'PYTHONPATH', 'TOKEN'}"
    text = f"import os\ndef test_it():\n    assert not {names} & set(os.environ)\n"
    (workspace / "repo" / "test_it.py").write_text(text)
    assert bench.run(RunTests(), cwd="repo", args=["-q"])["passed"] is True


def test_037_a_program_is_bounded(tmp_path: Path) -> None:
    begin = time.monotonic()
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])"
    script = f"import subprocess, sys, time\n{child}\ntime.sleep(60)"
    done = run_confined([sys.executable, "-c", script], cwd=tmp_path, timeout=1)
    assert done.timed_out
    assert time.monotonic() - begin < 20
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    assert "time.sleep(60)" not in listed
    done = run_confined([sys.executable, "-c", "print('x' * 10**6)"], cwd=tmp_path, timeout=20)
    assert len(done.stdout) == 64 * 2**10
    grow = "import os\nwith open('big', 'wb') as f:\n    f.write(b'x' * 10**7)"
    assert run_confined([sys.executable, "-c", grow], cwd=tmp_path, timeout=20, file_bytes=10**6).returncode != 0
    assert (
        run_confined(
            [sys.executable, "-c", "bytearray(10**9)"], cwd=tmp_path, timeout=20, memory_bytes=2**28
        ).returncode
        != 0
    )


# -- patches ---------------------------------------------------------------------------------------------------


def diff(path: str, *body: str, header: str = "@@ -1,3 +1,3 @@") -> str:
    return "\n".join([f"--- a/{path}", f"+++ b/{path}", header, *body]) + "\n"


EDIT = (" one", "-two", "+TWO", " three")


@pytest.mark.parametrize("target", ["/tmp/out.txt", "../other/secret.txt", "x/../../other/secret.txt"])
def test_038_a_patch_that_leads_out(bench: Bench, workspace: Path, target: str) -> None:
    (workspace / "repo" / "in.txt").write_text("one\ntwo\nthree\n")
    both = diff("in.txt", *EDIT) + f"--- a/{target}\n+++ b/{target}\n@@ -1 +1 @@\n-untouched\n+changed\n"
    with pytest.raises(AuthorityError):
        bench.run(ApplyPatch(), cwd="repo", diff=both)
    assert (workspace / "repo" / "in.txt").read_text() == "one\ntwo\nthree\n"
    assert (workspace / "other" / "secret.txt").read_text() == "untouched"


def test_038_a_patch_behind_a_link(bench: Bench, workspace: Path) -> None:
    (workspace / "repo" / "sub").symlink_to(workspace / "other")
    text = (
        "--- a/sub/secret.txt\n+++ b/sub/secret.txt\n@@ -1 +1 @@\n-untouched\n\\ No newline at end of file\n+changed\n"
    )
    with pytest.raises(AuthorityError):
        bench.run(ApplyPatch(), granted(fs_write=["repo/**"]), cwd="repo", diff=text)
    with pytest.raises(AuthorityError):
        bench.run(ApplyPatch(), granted(fs_write=["**"]), cwd="repo", diff=text)
    assert (workspace / "other" / "secret.txt").read_text() == "untouched"


def test_039_two_files_with_the_same_context(bench: Bench, workspace: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (workspace / "repo" / name).write_text("one\ntwo\nthree\n")
    both = diff("a.txt", " one", "-two", "+A", " three") + diff("b.txt", " one", "-two", "+B", " three")
    assert bench.run(ApplyPatch(), cwd="repo", diff=both) == {"applied": True, "files": ["a.txt", "b.txt"]}
    assert (workspace / "repo" / "a.txt").read_text() == "one\nA\nthree\n"
    assert (workspace / "repo" / "b.txt").read_text() == "one\nB\nthree\n"


def test_040_a_real_diff_of_git(bench: Bench, workspace: Path) -> None:
    repo = workspace / "repo"

    def git(*args: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.safecrlf=false"]
        done = subprocess.run(["git", *who, *args], cwd=repo, capture_output=True, text=True, check=True)
        return done.stdout

    git("init", "-q")
    numbers = [f"line {n}\n" for n in range(40)]
    (repo / "edited.txt").write_text("".join(numbers))
    (repo / "gone.txt").write_text("bye\n-- not a header\n")
    (repo / "tail.txt").write_text("no newline")
    (repo / "sql.txt").write_text("-- old\n++ odd\n\n\nx\n")
    git("add", ".")
    git("commit", "-qm", "first")
    before = {p.name: p.read_bytes() for p in repo.glob("*.txt")}
    numbers[3], numbers[30] = "changed\n", ""
    (repo / "edited.txt").write_text("".join(numbers))
    (repo / "gone.txt").unlink()
    (repo / "tail.txt").write_text("no newline\nany more")
    (repo / "sql.txt").write_text("++ odd\n\nx\n-- new\n")
    (repo / "new").mkdir()
    (repo / "new" / "file.py").write_text("x = 1\n")
    git("add", ".")
    text = git("diff", "--cached")
    after = {str(p.relative_to(repo)): p.read_bytes() for p in [*repo.glob("*.txt"), repo / "new" / "file.py"]}
    for path in [*repo.glob("*.txt"), repo / "new" / "file.py"]:
        path.unlink()
    (repo / "new").rmdir()
    for name, data in before.items():
        (repo / name).write_bytes(data)
    bench.run(ApplyPatch(), cwd="repo", diff=text)
    assert {str(p.relative_to(repo)): p.read_bytes() for p in [*repo.glob("*.txt"), repo / "new" / "file.py"]} == after


def test_041_a_mismatch_in_the_second_file(bench: Bench, workspace: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (workspace / "repo" / name).write_text("one\ntwo\nthree\n")
    both = diff("a.txt", *EDIT) + diff("b.txt", " one", "-other", "+TWO", " three")
    with pytest.raises(PatchError, match=r"b\.txt"):
        bench.run(ApplyPatch(), cwd="repo", diff=both)
    assert (workspace / "repo" / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert sorted(p.name for p in (workspace / "repo").iterdir()) == ["a.txt", "b.txt"]


def test_041_a_rename_that_fails_takes_the_first_file_back(
    bench: Bench, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt"):
        (workspace / "repo" / name).write_text("one\ntwo\nthree\n")
    real = os.replace

    def failing(source: Any, target: Any, **more: Any) -> None:
        if target == "b.txt":
            raise OSError("disk full")
        real(source, target, **more)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="disk full"):
        bench.run(ApplyPatch(), cwd="repo", diff=diff("a.txt", *EDIT) + diff("b.txt", *EDIT))
    assert [(workspace / "repo" / name).read_text() for name in ("a.txt", "b.txt")] == ["one\ntwo\nthree\n"] * 2
    assert sorted(p.name for p in (workspace / "repo").iterdir()) == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "", "no diff at all\n", "--- a/a.txt\n", "--- a/a.txt\n+++ b/a.txt\n", "@@ -1 +1 @@\n-a\n+b\n",
        diff("a.txt", " one", "-two"), diff("a.txt", " one", "?two", "+x", " three"),
        "--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+x\n", "rename from a\nrename to b\n", "GIT binary patch\n",
        "--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n",
        "new file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n",
        "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", diff("missing.txt", *EDIT), diff("a.txt", *EDIT) * 2,
    ],
)  # fmt: skip
def test_041_what_is_no_patch(bench: Bench, workspace: Path, text: str) -> None:
    (workspace / "repo" / "a.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises((PatchError, AuthorityError)):
        bench.run(ApplyPatch(), cwd="repo", diff=text)
    assert (workspace / "repo" / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert [p.name for p in (workspace / "repo").iterdir()] == ["a.txt"]


def test_042_stale_bytecode_goes(bench: Bench, workspace: Path) -> None:
    module = workspace / "repo" / "mod.py"
    module.write_text("VALUE = 1\n")
    stamp = module.stat().st_mtime
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import mod"], cwd=workspace / "repo", check=True, env=writing)
    assert len(list((workspace / "repo" / "__pycache__").iterdir())) == 1
    bench.run(ApplyPatch(), cwd="repo", diff="--- a/mod.py\n+++ b/mod.py\n@@ -1 +1 @@\n-VALUE = 1\n+VALUE = 2\n")
    os.utime(module, (stamp, stamp))
    seen = subprocess.run(
        [sys.executable, "-c", "import mod; print(mod.VALUE)"], cwd=workspace / "repo", capture_output=True, check=True
    )
    assert seen.stdout == b"2\n"


def test_043_probes_leave_nothing(bench: Bench, workspace: Path) -> None:
    (workspace / "repo" / "x").write_text("here")
    before = sorted(str(p) for p in (workspace / "repo").rglob("*"))
    reading = bench.context(granted(fs_read=["**"]))
    for capability, inputs in [
        (ReadFile(), {"path": "repo/x"}),
        (ListDir(), {"path": "repo"}),
        (SearchCorpus(), {"query": "x"}),
    ]:
        capability.probe(inputs, reading)
    WriteFile().probe({"path": "repo/x", "content": ""}, bench.context(SCOPED))
    WriteFile().probe({"path": "repo/new/deep/x", "content": ""}, bench.context(SCOPED))
    assert sorted(str(p) for p in (workspace / "repo").rglob("*")) == before
    assert (workspace / "repo" / "x").read_text() == "here"
    with pytest.raises(AuthorityError):
        WriteFile().probe({"path": "repo/x"}, reading)


def test_044_secrets_do_not_reach_the_log(tmp_path: Path) -> None:
    write = call("w", "fs.write_file", path="out.txt", content="{{ inputs.nested[0].password }}")
    with engine(tmp_path, recordings={}) as made:
        secret = "hunter2-hunter2"
        spec = problem(
            write,
            append("a", "{{ inputs.api_key }}"),
            call("b", "test.liar", n="{{ inputs.api_key }}"),
            end(shown="{{ inputs.api_key }}"),
            inputs={"api_key": secret, "nested": [{"password": secret}]},
        )
        made.run(spec, "r")
        made.run(
            {**spec, "metadata": {"root_nodes": [append("a", "{{ inputs.api_key }}"), end(x="{{ inputs.api_key }}")]}},
            "s",
        )
        made.run(
            {**spec, "attended": True, "metadata": {"root_nodes": [{"kind": "ask_user", "id": "q", "question": "?"}]}},
            "t",
        )
        made.deliver_message("t", "root_p@1.q", {"token": secret})
        made.resume("t")
        assert made.status("s")["status"] == "completed"
        assert made.result("s").outputs == {"x": secret}
        text = json.dumps([event.payload for event in made.store.events()])
    assert secret not in text
    assert "[hidden]" in text
    assert (tmp_path / "out.txt").read_text() == secret


def test_045_contracts_hold_both_ways(bench: Bench) -> None:
    with pytest.raises(CapabilityContractError, match="inputs"):
        bench.run(Liar(), n="text")
    with pytest.raises(CapabilityContractError, match="outputs"):
        bench.run(Liar(), n=1)
    finished = [e.payload for e in bench.store.events("r", kinds=["tool_call_finished"])]
    assert [f["ok"] for f in finished] == [False, False]
    assert "text" not in finished[0]["error"].split(":", 2)[2].replace("inputs", "")


def test_045_a_denial_is_finished_too(bench: Bench) -> None:
    with pytest.raises(AuthorityError):
        bench.run(ReadFile(), Authority(), path="repo/x")
    assert bench.kinds() == ["tool_call_started", "tool_call_finished"]


def test_046_a_success_is_bracketed_and_its_result_kept(bench: Bench) -> None:
    bench.run(WriteFile(), path="repo/x", content="x")
    assert bench.kinds() == ["tool_call_started", "artifact_written", "tool_call_finished"]
    finished = next(iter(bench.store.events("r", kinds=["tool_call_finished"])))
    assert bench.store.blobs.get_json(finished.payload["output_sha"]) == {"bytes_written": 1}


def test_047_names_are_unique_and_known() -> None:
    registry = Registry([ReadFile()])
    with pytest.raises(CapabilityError, match="already"):
        registry.register(ReadFile())
    with pytest.raises(UnknownCapability):
        registry.get("nothing")


def test_048_a_summary_uses_its_own_tape(tmp_path: Path) -> None:
    tapes = {"summarizer": ["first", "second"], "other": ["never"]}
    steps = [call("a", "text.summarize", text="long text"), call("b", "text.summarize", text="more")]
    with engine(tmp_path, recordings=tapes) as made:
        result = made.run(problem(*steps, end(a="{{ a.result.summary }}", b="{{ b.result.summary }}")), "r")
        assert result.outputs == {"a": "first", "b": "second"}
        assert result.metrics["usage"]["tokens"] == made.status("r")["usage"]["tokens"] > 0
        assert made.resume("r").status == "completed"
    with engine(tmp_path / "none") as made:
        assert "ChannelRequired" in str(made.run(problem(steps[0], end()), "r").error)


def test_048_a_corpus_is_searched_within_its_run(bench: Bench, workspace: Path) -> None:
    (workspace / "repo" / "doc.md").write_text(
        "An otter swims.\n\n" + "filler " * 40 + "\n\nA badger digs.\n" + "x " * 60
    )
    assert bench.run(IndexDocument(), path="repo/doc.md")["chunks"] == 2
    hits = bench.run(SearchCorpus(), query="badger", k=3)["hits"]
    assert [hit["doc_id"] for hit in hits] == ["repo/doc.md"]
    text = (workspace / "repo" / "doc.md").read_text()
    assert "badger" in text[hits[0]["start"] : hits[0]["end"]]


def test_summarize_is_not_repeated_blindly() -> None:
    idempotent = {
        c.spec.name: c.spec.idempotent
        for c in (ReadFile(), WriteFile(), ListDir(), RunTests(), SearchCorpus(), ApplyPatch(), Summarize())
    }
    assert [name for name, value in idempotent.items() if not value] == ["repo.apply_patch", "text.summarize"]


@pytest.mark.parametrize(
    ("value", "schema", "count"),
    [
        (1, {"type": "integer"}, 0),
        (True, {"type": "integer"}, 1),
        (True, {"type": "number"}, 1),
        (1.5, {"type": "number"}, 0),
        (1, {"type": "unheard-of"}, 1),
        ("x", None, 0),
        ([1, "a"], {"type": "array", "items": {"type": "integer"}}, 1),
        ({"a": 1}, {"type": "object", "required": ["a", "b"]}, 1),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "additionalProperties": False}, 1),
        ("c", {"enum": ["a", "b"]}, 1),
        (5, {"minimum": 6}, 1),
        (5, {"maximum": 4}, 1),
        (5, {"const": 5}, 0),
        (None, {"type": ["string", "null"]}, 0),
    ],
)
def test_the_schema_subset(value: Any, schema: dict[str, Any] | None, count: int) -> None:
    assert len(schema_errors(value, schema)) == count


def test_a_capability_without_work_says_so() -> None:
    class Bare(Capability):
        spec = CapabilitySpec(name="bare")

    empty: Inputs = {}
    with pytest.raises(NotImplementedError):
        Bare().run(empty, None)  # type: ignore[arg-type]
