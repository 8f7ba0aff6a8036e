"""A transcript of 450 MB with everything wrong in it that was ever seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.transcripts import write_transcript

SCRIPT = """
import json, re, sys
from pathlib import Path
from experiments.simulate import simulate
from sherpa.config import EngineConfig
from sherpa.sources.openclaw import Installation, Mapping
from sherpa.sources.openclaw.collect import collect
from sherpa.sources.openclaw.inspect import inspect

def peak():
    # Unlike the figure of getrusage, this one does not begin with that of the process that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

with Installation(Path(sys.argv[1])) as installation:
    report = inspect(installation)["totals"]
peak_of_inspect = peak()
with Installation(Path(sys.argv[1])) as installation:
    data = collect(installation, Mapping())
peak_of_reading = peak()
print(json.dumps({"totals": report, "peaks": [peak_of_inspect, peak_of_reading], "events": data.log.events}))
"""
GARBAGE = [
    (b'{"type":"message","id":"bad', "malformed"),
    (b"undefined", "malformed"),
    (b"[1, 2]", "notAnObject"),
    (b"\0" * 284, "nulPadding"),
    (b"", "blank"),
    (b'{"type":"custom","id":"surrogate","data":"\\ud83e"}', "replacedCharacters"),
    (b'{"type":"custom","id":"crlf"}\r', "carriageReturns"),
    (b'{"type":"custom","id":"long","data":"' + b"x" * 20_000_000 + b'"}', "oversized"),
]


@pytest.mark.full
def test_it_is_read_in_little_memory_and_every_loss_is_counted(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    written = write_transcript(good, 450_000_000)
    place = tmp_path / "sessions" / "large.jsonl"
    place.parent.mkdir()
    with open(good, "rb") as source, open(place, "wb") as target:
        target.write(b"\xef\xbb\xbf")
        for number, line in enumerate(source, start=1):
            target.write(line)
            if number % 10_000 == 0 and number // 10_000 <= len(GARBAGE):
                target.write(GARBAGE[number // 10_000 - 1][0] + b"\n")
        target.write(b'{"type":"message","id":"cut","mess')
    good.unlink()
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(place.parent)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = {"byteOrderMark": 1, "truncatedTail": 1}
    for _, kind in GARBAGE:
        expected[kind] = expected.get(kind, 0) + 1
    assert found["totals"]["losses"] == expected
    assert found["totals"]["rowsLost"] == 5
    counts = found["totals"]["counts"]
    assert (counts["toolCalls"], counts["toolResults"], counts["unresolved"]) == (written.calls, written.calls, 0)
    assert counts["entries"] == written.lines - 1 + 2
    assert counts["lines"] == written.lines + len(GARBAGE) + 1
    assert found["events"] > written.calls
    assert max(found["peaks"]) < 300 * 1024
