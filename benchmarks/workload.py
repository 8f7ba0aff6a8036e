"""Event logs and ledgers of any size, always the same for the same seed: a process of forty types, cases of twenty."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sherpa import EventLog

TYPES, LENGTH, DAYS = 40, 20, 10
_SHARES = (0.55, 0.2, 0.1, 0.08, 0.05, 0.02)
"""How often each of the six types that may follow a type does."""
_START = 1_767_225_600
_OUTCOMES = ("unknown", "success", "failure")


def process_log(events: int, seed: int = 1) -> EventLog:
    """A log of `events` events, a whole number of cases."""
    codes = _codes(events, np.random.default_rng(seed))
    size = codes.size
    return EventLog.from_codes(
        codes.ravel(),
        np.arange(0, size + 1, LENGTH),
        [f"tool.type-{i}.done" for i in range(TYPES)],
        instants=_START * 10**9 + np.arange(size) * 10**9,
    )


def _codes(events: int, rng: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    following = np.stack([rng.choice(TYPES, len(_SHARES), replace=False) for _ in range(TYPES)])
    bounds = np.cumsum(_SHARES)
    codes = np.zeros((max(1, events // LENGTH), LENGTH), np.int32)
    for at in range(1, LENGTH):
        drawn = np.searchsorted(bounds, rng.random(len(codes))).clip(0, len(_SHARES) - 1)
        codes[:, at] = following[codes[:, at - 1], drawn]
    return codes


def write_ledger(root: Path, events: int, seed: int = 1) -> int:
    """A ledger as `ProceduralMemory` writes it, ten segments; gives its bytes."""
    rng = np.random.default_rng(seed)
    codes = _codes(events, rng)
    outcomes = rng.choice(3, codes.shape, p=[0.5, 0.45, 0.05])
    folder = root / "events"
    folder.mkdir(parents=True, exist_ok=True)
    per_day = -(-len(codes) // DAYS)
    written = seq = 0
    for day in range(-(-len(codes) // per_day)):
        name = datetime.fromtimestamp(_START + day * 86_400, UTC).strftime("%Y-%m-%d")
        with open(folder / f"{name}.jsonl", "w", encoding="ascii") as file:
            for case in range(day * per_day, min((day + 1) * per_day, len(codes))):
                second = case % per_day * (86_400 - LENGTH) // per_day
                lines = []
                for at, (code, ended) in enumerate(zip(codes[case].tolist(), outcomes[case].tolist(), strict=True)):
                    seq += 1
                    clock = second + at
                    lines.append(
                        f'{{"eventId":"e{case * 2654435761 % 2**32:08x}-{at:04d}","schemaVersion":1,"agentId":"main",'
                        f'"caseId":"case-{case}","ts":"{name}T{clock // 3600:02d}:{clock // 60 % 60:02d}:'
                        f'{clock % 60:02d}.{seq % 1000:03d}Z","source":"bench","type":"tool.type-{code}.done",'
                        f'"actor":"agent","outcome":"{_OUTCOMES[ended]}","labels":["tool:type-{code}",'
                        f'"tool-family:tool"],"entities":[],"metrics":{{"durationMs":{seq % 5000}}},'
                        f'"meta":{{"toolCallId":"call_{seq}"}},"seq":{seq}}}\n'
                    )
                written += file.write("".join(lines))
    return written
