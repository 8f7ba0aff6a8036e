"""started-finished: what has started will finish. A floor that needs next to no memory."""

from __future__ import annotations

from baselines.counts import ranked, ranking
from baselines.global_majority import GlobalMajority
from baselines.predictor import Ranking
from sherpa.eventlog import Case

OPENING = ("started", "requested")
CLOSING = ("succeeded", "failed", "completed", "finished", "ended", "granted", "denied")


def closes(last: str, target: str) -> bool:
    """True if `last` is ``x.started`` or ``x.requested`` and `target` is an end of the same x.

    >>> closes("tool.started", "tool.failed"), closes("tool.started", "web.failed"), closes("started", "failed")
    (True, False, False)
    """
    stem, _, phase = last.rpartition(".")
    target_stem, _, target_phase = target.rpartition(".")
    return bool(stem) and stem == target_stem and phase in OPENING and target_phase in CLOSING


class StartedFinished(GlobalMajority):
    """After an opening, the ends of the same thing: those seen most often first, then the usual ones.

    Parameters
    ----------
    fallback : bool
        Rank by overall frequency after any other event.
    """

    name = "started-finished"
    description = "The end of what has just started."

    def __init__(self, *, fallback: bool = True) -> None:
        super().__init__()
        self._fallback = fallback

    def rank(self, prefix: Case) -> Ranking:
        last = prefix.last_type or ""
        stem, _, phase = last.rpartition(".")
        if not stem or phase not in OPENING:
            counts = self._tally.counts if self._fallback else {}
            return ranking(counts, matched_order=0, mode="fallback", backoff_depth=1)
        seen = {e: n for e, n in self._tally.counts.items() if closes(last, e)}
        usual = [e for name in CLOSING if (e := f"{stem}.{name}") not in seen]
        events = (*ranked(seen), *usual)
        total = sum(seen.values())
        shares = tuple(seen.get(e, 0) / total for e in events) if total else (1.0, *[0.0] * (len(events) - 1))
        return Ranking(
            events=events,
            probabilities=shares,
            matched_order=1,
            support=total,
            supports=tuple(seen.get(e, 0) for e in events),
            mode="raw",
        )
