"""Context and channels. Acceptance checks 115 to 121."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runtime.capabilities import Capability, CapabilitySpec, Context, Inputs
from harness.runtime.channel import (
    EchoChannel,
    LiveChannel,
    OpenAICompatible,
    RecordedChannel,
    Recorder,
    make_channel,
)
from harness.runtime.context import build_summary, chunk, cited, journal, scoped_snapshot
from harness.runtime.errors import (
    ChannelError,
    ChannelRequired,
    ProviderUnavailable,
    RecordingExhausted,
    RecordingMismatch,
    RunStoreError,
)
from harness.runtime.store import RunStore
from tests.harness.runtime.made import call, end, engine, problem

MESSAGES = [{"role": "user", "content": "question"}]


BLOCKS = st.lists(st.text(alphabet="ab #\n\t.é", max_size=150), max_size=12).map("\n\n".join)


@given(BLOCKS, st.sampled_from(["paragraph", "heading"]))
def test_115_chunks_are_exact(text: str, strategy: Any) -> None:
    chunks = chunk("d", text, strategy)
    assert chunks == chunk("d", text, strategy)
    end = 0
    for n, piece in enumerate(chunks):
        assert text[piece.start : piece.end] == piece.text
        assert text[end : piece.start].strip() == ""
        assert piece.chunk_id == f"d:{n}"
        end = piece.end
    assert text[end:].strip() == ""


def test_115_small_ones_are_joined() -> None:
    long = "x" * 100
    text = "\n\n".join([long, "tiny", "a", long, long, "last"])
    assert [piece.text for piece in chunk("d", text)] == [f"{long}\n\ntiny\n\na", long, f"{long}\n\nlast"]
    assert [piece.text for piece in chunk("d", f"tiny\n\n{long}")] == [f"tiny\n\n{long}"]
    headed = f"intro\n# One\n{long}\n## Two\n{long}"
    assert [piece.text.split("\n")[0] for piece in chunk("d", headed, "heading")] == ["intro", "## Two"]
    assert chunk("d", long, "heading") == chunk("d", long)
    with pytest.raises(RunStoreError):
        chunk("d", long, "sentence")  # type: ignore[arg-type]


def document() -> str:
    return "\n\n".join(f"Part {n}: " + f"word{n} " * 20 for n in range(8))


def test_116_every_citation_resolves(store: RunStore) -> None:
    text = document()
    chunks = chunk("doc", text)
    assert len(chunks) == 8
    halves = [
        build_summary(store, "r", "doc", 1, chunks[at : at + 4], lambda texts: " / ".join(t[:7] for t in texts))
        for at in (0, 4)
    ]
    top = build_summary(store, "r", "doc", 2, halves, lambda texts: " // ".join(texts))
    summaries = {half.summary_id: half.text for half in halves}
    for span in [*top.spans, *halves[0].spans]:
        found = cited(span, {"doc": text}.__getitem__, summaries.__getitem__)
        expected = summaries.get(span.child_id) or next(c.text for c in chunks if c.chunk_id == span.child_id)
        assert found == expected
    assert sorted(s.child_id for s in top.spans if s.of == "document") == sorted(c.chunk_id for c in chunks)
    assert [s.child_id for s in top.spans if s.of == "summary"] == [half.summary_id for half in halves]
    with pytest.raises(RunStoreError, match="not what was cited"):
        cited(top.spans[1], lambda _: "another document" * 100, summaries.__getitem__)


def test_117_summaries_of_different_children_differ(store: RunStore) -> None:
    chunks = chunk("doc", document())
    ids = [
        build_summary(store, "r", "doc", 1, [chunks[a] for a in order], lambda _: "same").summary_id
        for order in ([0, 1, 7], [0, 2, 7], [0, 7], [7, 1, 0])
    ]
    assert len(set(ids)) == 4


def test_118_what_is_cut_says_so(store: RunStore) -> None:
    made = build_summary(store, "r", "doc", 1, chunk("doc", document()), lambda _: "y" * 5000)
    assert len(made.text) <= 2000
    assert made.text.endswith("[cut: 3060 of 5000 characters left out]")
    with pytest.raises(RunStoreError):
        build_summary(store, "r", "doc", 1, [], lambda _: "")


def test_119_a_family_and_nobody_else(store: RunStore) -> None:
    for run, parent in [("child", "r"), ("other", None), ("grandchild", "child")]:
        store.append(run, "run_started", {"status": "running", "problem_sha": "0", "parent_run_id": parent})
    for run in ("grandchild", "other", "r", "child"):
        journal(store, run, "observation", run)
    found = scoped_snapshot(store, "r")
    assert [e.seq for e in found] == sorted(e.seq for e in found)
    assert {e.run_id for e in found} == {"r", "child", "grandchild"}
    texts = [e.payload["text"] for e in scoped_snapshot(store, "child", ["journal_appended"])]
    assert texts == ["grandchild", "child"]


def test_120_a_journal_has_six_kinds(store: RunStore) -> None:
    for kind in ("intent", "decision", "observation", "assumption", "blocker", "result"):
        journal(store, "r", kind, "text", refs=["a"])
    head = store.head()
    with pytest.raises(RunStoreError, match="thought"):
        journal(store, "r", "thought", "text")
    assert store.head() == head


def test_121_tapes() -> None:
    tape = RecordedChannel({"s": ["first", {"text": "second", "match": {"temperature": 0.5}}, "third"], "t": ["other"]})
    answer = tape.complete(MESSAGES, session="s")
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens, answer.tokens_estimated) == (
        "first",
        2,
        2,
        True,
    )
    for _ in range(2):
        with pytest.raises(RecordingMismatch, match=r"recorded 0\.5, asked 0\.2"):
            tape.complete(MESSAGES, session="s")
    assert tape.complete(MESSAGES, session="t").text == "other"
    assert tape.complete(MESSAGES, temperature=0.5, session="s").text == "second"
    assert tape.complete(MESSAGES, session="s").text == "third"
    with pytest.raises(RecordingExhausted):
        tape.complete(MESSAGES, session="s")
    with pytest.raises(RecordingExhausted):
        tape.complete(MESSAGES, session="nobody")


@pytest.mark.parametrize("name", ["messages", "temperature", "max_tokens"])
def test_121_each_part_of_a_request_is_matched(name: str) -> None:
    request: dict[str, Any] = {"messages": MESSAGES, "temperature": 0.2, "max_tokens": 10}
    tape = RecordedChannel({"s": [{"text": "x", "match": request}]})
    other = {**request, name: [{"role": "user", "content": "?"}] if name == "messages" else 1}
    with pytest.raises(RecordingMismatch, match=name):
        tape.complete(session="s", **other)
    assert tape.complete(session="s", **request).text == "x"


@pytest.mark.parametrize(
    "entry", [1, None, {"match": {}}, {"text": 1}, {"text": "x", "match": {"model": "y"}}, {"text": "x", "y": 1}]
)
def test_121_malformed_entries(entry: Any) -> None:
    with pytest.raises(ChannelError):
        RecordedChannel({"s": [entry]})


def test_121_no_tape_and_an_empty_one() -> None:
    assert isinstance(make_channel("recorded", None), EchoChannel)
    with pytest.raises(ChannelRequired):
        make_channel("recorded", None).complete(MESSAGES, session="s")
    with pytest.raises(RecordingExhausted):
        make_channel("recorded", {}).complete(MESSAGES, session="s")
    with pytest.raises(ChannelError, match="unknown"):
        make_channel("telepathy")
    with pytest.raises(ProviderUnavailable, match="none is configured"):
        make_channel("live").complete(MESSAGES, session="s")


class Server(http.server.BaseHTTPRequestHandler):
    """A provider with one answer."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply: dict[str, Any] = {"choices": [{"message": {"content": f"to {body['messages'][0]['content']}"}}]}
        if body["model"] == "counting":
            reply["usage"] = {"prompt_tokens": 1_000_000, "completion_tokens": 2_000_000}
        data = json.dumps(reply).encode()
        self.send_response(302 if body["model"] == "elsewhere" else 200)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_121_a_live_provider(provider: str) -> None:
    answer = OpenAICompatible(provider, "counting", "key", price=(1.0, 2.0)).complete(MESSAGES, session="s")
    assert (answer.text, answer.tokens, answer.cost_usd, answer.tokens_estimated) == (
        "to question",
        3_000_000,
        5.0,
        False,
    )
    answer = OpenAICompatible(provider, "silent").complete(MESSAGES, session="s")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.tokens_estimated) == (2, 3, True)
    with pytest.raises(ProviderUnavailable):
        OpenAICompatible(provider, "elsewhere", "key").complete(MESSAGES, session="s")
    dead = OpenAICompatible("http://127.0.0.1:1/v1", "dead")
    channel = LiveChannel([dead, OpenAICompatible(provider, "silent")])
    assert channel.complete(MESSAGES, session="s").text == "to question"
    assert len(channel.failures) == 1
    with pytest.raises(ChannelError, match="no http address"):
        OpenAICompatible("file:///etc/passwd", "x")


def test_121_a_recorder_makes_tapes_that_match(provider: str) -> None:
    recorder = Recorder(OpenAICompatible(provider, "silent"))
    recorder.complete(MESSAGES, session="s")
    tape = RecordedChannel(recorder.recordings)
    with pytest.raises(RecordingMismatch):
        tape.complete([{"role": "user", "content": "other"}], session="s")
    assert tape.complete(MESSAGES, session="s").text == "to question"


def test_121_branches_do_not_share_an_entry(tmp_path: Path) -> None:
    words = ["one", "two", "three", "four"]
    branches = [[call(f"s{n}", "text.summarize", text="x" * n)] for n in range(4)]
    spec = problem(
        {"kind": "parallel", "id": "f", "branches": branches},
        end(said=[f"{{{{ s{n}.result.summary }}}}" for n in range(4)]),
    )
    for attempt in range(5):
        with engine(tmp_path / str(attempt), recordings={"summarizer": words}) as made:
            result = made.run(spec, "r")
            assert sorted(result.outputs["said"]) == sorted(words)


def test_121_a_tape_goes_on_where_it_was(tmp_path: Path) -> None:
    class AskTwice(Capability):
        spec = CapabilitySpec(name="test.ask", idempotent=True)

        def run(self, inputs: Inputs, context: Context) -> dict[str, Any]:
            first = context.ask(MESSAGES, session="s").text
            mark = context.workspace / "interrupted"
            if not mark.exists():
                mark.touch()
                raise KeyboardInterrupt
            return {"said": [first, context.ask([{"role": "user", "content": "again"}], session="s").text]}

    tapes = {"s": ["one", "two", "three"]}
    spec = problem(call("a", "test.ask"), end(x="{{ a.result.said }}"))
    with engine(tmp_path, AskTwice(), recordings=tapes) as made, pytest.raises(KeyboardInterrupt):
        made.run(spec, "r")
    with engine(tmp_path, AskTwice(), recordings=tapes) as made:
        assert made.resume("r").outputs == {"x": ["one", "two"]}
        assert len(list(made.store.events("r", kinds=["channel_called"]))) == 2
