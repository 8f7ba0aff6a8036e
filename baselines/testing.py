"""The conformance suite: what anything that predicts must hold, whoever wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from baselines.predictor import Predictor, Ranking
from sherpa.eventlog import Case, CaseInfo, EventLog, concatenate

Factory = Callable[[], Predictor]
Check = Callable[[Factory], None]

TOLERANCE = 1e-9  # by how much probabilities, and sums of them, may be off
TYPES = ("task.started", "file.read", "tool.failed", "message.user.stop", "tests.run", "task.completed")
OTHER_TYPES = ("deploy.started", "file.read", "review.requested", "task.completed", "deploy.failed")
UNSEEN = "never.seen"
_CLASSES = ("code-fix", "research")
_NOTHING = EventLog.from_codes([], [0], ())


def check_predictor(factory: Factory, *, sees_case: bool = False) -> None:
    """Run every check of `CHECKS`; AssertionError names the predictor, the first check that fails, and how it does.

    Parameters
    ----------
    factory : callable
        Gives a fresh predictor that has learned nothing.
    sees_case : bool
        The predictor may read a case's id and what people annotated about it; `check_case_is_not_seen` is left out.
    """
    for check in (c for c in CHECKS if not (sees_case and c is check_case_is_not_seen)):
        try:
            check(factory)
        except Exception as error:
            raise AssertionError(f"{factory().name}: {check.__name__}: {type(error).__name__}: {error}") from error


def random_log(seed: int, *, cases: int = 8, types: Sequence[str] = TYPES, annotated: bool = True) -> EventLog:
    """A log of random cases of 1 to 7 events, with outcomes and families; on request annotated."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 8, cases))))
    size = int(offsets[-1])
    log = EventLog.from_codes(
        rng.integers(0, len(types), size),
        offsets,
        types,
        case_ids=[f"case-{seed}-{i}" for i in range(cases)],
        outcomes=rng.integers(0, 3, size),
        families=rng.integers(-1, 2, size),
        family_vocabulary=_CLASSES,
    )
    picks = rng.integers(3, size=cases).tolist()
    told = [tuple((t, f"label:{len(t)}") for t in case.types) for case in log]
    info = tuple(CaseInfo((*_CLASSES, None)[k], (f"no:{k}",), e, e[0][:k]) for k, e in zip(picks, told, strict=True))
    return replace(log, info=info if annotated else ())


def plain_log(cases: Sequence[Sequence[str]]) -> EventLog:
    """A log of types and nothing else."""
    types = list(dict.fromkeys(t for case in cases for t in case))
    return EventLog.from_codes([types.index(t) for c in cases for t in c], np.cumsum([0, *map(len, cases)]), types)


def tied_log() -> EventLog:
    """Every pair of types once, in a shuffled order: all that follow a type are seen equally often."""
    pairs = [(a, b) for a in TYPES for b in TYPES]
    return plain_log([pairs[i] for i in np.random.default_rng(7).permutation(len(pairs)).tolist()])


def prefixes(*logs: EventLog, cases: int = 8) -> Iterator[Case]:
    """All prefixes, from the empty one to the whole, of the first cases of each log."""
    return (log[i].prefix(n) for log in logs for i in range(min(cases, len(log))) for n in range(len(log[i]) + 1))


def _renamed(log: EventLog) -> EventLog:
    """The same events in cases of other ids, other classes and other annotations."""
    info = tuple(replace(c.info, workflow_class="x", texts=("y",), risks=("z",)) for c in log if log.info)
    return replace(log, case_ids=tuple(f"{i} again" for i in log.case_ids), info=info, _views={})


def _with_another_future(prefix: Case) -> Case:
    """The same prefix in a case that goes on in another way."""
    alone, tail = prefix.as_log(), EventLog.from_codes([0, 1], [0, 2], (UNSEEN, TYPES[0]), outcomes=[2, 2])
    joined = concatenate([alone, tail])
    told = (*prefix.info.event_texts[: len(prefix)], *((t, "later") for t in tail.vocabulary))
    log = replace(joined, offsets=joined.offsets[[0, 2]], case_ids=alone.case_ids, terminal=tail.terminal, _views={})
    return replace(log, info=tuple(replace(i, event_texts=told) for i in alone.info))[0].prefix(len(prefix))


def _trained(factory: Factory, *logs: EventLog | Case) -> Predictor:
    predictor = factory()
    for log in logs:
        predictor.learn(log)
    return predictor


def _close(a: float | None, b: float | None) -> bool:
    return a == b or (a is not None and b is not None and abs(a - b) <= TOLERANCE)


def _same(got: Ranking, wanted: Ranking) -> bool:
    """Equal, if sums may be rounded in another way.

    Events may trade places only if they are tied but for rounding: an exact tie has to be broken the same way.
    """
    plain = ("matched_order", "backoff_depth", "support", "mode", "risks")
    if any(getattr(got, part) != getattr(wanted, part) for part in plain) or not _close(got.success, wanted.success):
        return False
    mine, theirs = (dict(zip(r.events, r.probabilities, strict=False)) for r in (got, wanted))
    counts = [dict(zip(r.events, r.supports, strict=False)) for r in (got, wanted)]
    place = {event: i for i, event in enumerate(got.events)}
    if place.keys() != set(wanted.events) or counts[0] != counts[1]:
        return False
    shares = {event: (mine.get(event), theirs.get(event)) for event in place}
    moved = [(a, b) for a, b in combinations(wanted.events, 2) if place[a] > place[b]]
    tied = all(shares[a] != shares[b] and _close(shares[a][1], shares[b][1]) for a, b in moved)
    return tied and all(_close(*pair) for pair in shares.values())


def _require_same_state(got: Predictor, wanted: Predictor, asked: Iterable[Case], what: str) -> None:
    """Both answer alike after every prefix and hold equally much."""
    for prefix in asked:
        a, b = got.rank(prefix), wanted.rank(prefix)
        assert _same(a, b), f"{what}: after {list(prefix.types)} it says {a} instead of {b}"
    assert got.states == wanted.states, f"{what}: it holds {got.states} states instead of {wanted.states}"


def _require_distribution(ranking: Ranking) -> None:
    shares = ranking.probabilities
    assert len(shares) == len(ranking.events), f"not one probability per event in {ranking}"
    assert len(set(ranking.events)) == len(ranking.events), f"an event is ranked twice in {ranking}"
    assert all(0 <= p <= 1 for p in shares), f"a probability lies outside [0, 1] in {ranking}"
    assert math.fsum(shares) <= 1 + TOLERANCE, f"the probabilities sum to {math.fsum(shares)} in {ranking}"


def check_any_prefix_is_answered(factory: Factory) -> None:
    """Empty prefixes and unseen events do not raise, even before anything, or any step, was learned."""
    strange = plain_log([(UNSEEN,) * 7, (*TYPES, UNSEEN), (UNSEEN, *TYPES)])
    for learned in ((), (_NOTHING,), (plain_log([TYPES[:1]]),), (random_log(1),)):
        predictor = _trained(factory, *learned)
        for prefix in (*prefixes(strange, random_log(1)), strange[0].prefix(0).as_log()[0]):
            predictor.rank(prefix)


def check_probabilities(factory: Factory) -> None:
    """Probabilities lie in [0, 1], one per event, and sum to at most 1; no event is ranked twice."""
    logs = random_log(1), random_log(2, types=OTHER_TYPES, annotated=False), tied_log()
    predictor = factory()
    for log in (_NOTHING, *logs):
        predictor.learn(log)
        for prefix in prefixes(*logs):
            _require_distribution(predictor.rank(prefix))


def check_calibrated_covers_vocabulary(factory: Factory) -> None:
    """A calibrated predictor ranks every learned type; what the sum leaves of 1 is for the end and the unseen."""
    logs = random_log(1), random_log(2, types=OTHER_TYPES)
    predictor, learned = _trained(factory, *logs), {t for log in logs for case in log for t in case.types}
    for prefix in prefixes(*logs) if predictor.calibrated else ():
        missing = learned.difference(predictor.rank(prefix).events)
        assert not missing, f"after {list(prefix.types)} it does not rank {sorted(missing)}, which it has learned"


def check_deterministic(factory: Factory) -> None:
    """Two predictors with the same past answer alike, ties included, and so does one that is asked twice."""
    for log in (tied_log(), random_log(1)):
        first, second = _trained(factory, log), _trained(factory, log)
        for prefix in prefixes(log, cases=36):
            answers = first.rank(prefix), first.rank(prefix), second.rank(prefix)
            assert answers[0] == answers[1] == answers[2], f"several answers after {list(prefix.types)}: {answers}"


def check_forget_undoes_learn(factory: Factory) -> None:
    """Learning A and B and forgetting B leaves A alone, or nothing, and what is learned next finds it so."""
    small, other, large = random_log(1), random_log(2, types=OTHER_TYPES, annotated=False), random_log(3, cases=160)
    pairs = (small, other), (small, large), (large, small), (other, _renamed(other)), (_NOTHING, large)
    for kept, gone in pairs:
        for learned, parts in (((kept, gone), (gone,)), ((gone, kept), tuple(gone))):
            wanted, got = _trained(factory, kept), _trained(factory, *learned)
            for part in parts:
                got.forget(part)
            _require_same_state(got, wanted, prefixes(kept, gone), f"after forgetting {len(parts)} part(s)")
            for predictor in (wanted, got):
                predictor.learn(tied_log())
            _require_same_state(got, wanted, prefixes(kept, gone), "learning on after forgetting")


def check_forgetting_the_unlearned(factory: Factory) -> None:
    """Forgetting a case with next events that were never learned raises ValueError or changes nothing."""
    log, strange = random_log(1), plain_log([(UNSEEN, UNSEEN), (*TYPES[:2], UNSEEN), (UNSEEN, *TYPES, UNSEEN)])
    for case, learned in [*((case, log) for case in strange), (log[0], _NOTHING), (strange[1], _NOTHING)]:
        predictor = _trained(factory, learned)
        try:
            predictor.forget(case)
        except ValueError:
            continue
        _require_same_state(predictor, _trained(factory, learned), prefixes(log, strange), f"without {case.types}")


def check_learning_order(factory: Factory) -> None:
    """Neither the order in which cases are learned matters, nor whether they come at once or one by one."""
    for log in (random_log(1), tied_log(), random_log(2, cases=160, annotated=False)):
        wanted, shuffled = _trained(factory, log), log.subset(np.random.default_rng(11).permutation(len(log)))
        for got in (_trained(factory, shuffled), _trained(factory, *shuffled)):
            _require_same_state(got, wanted, prefixes(log), "after learning in another order")


def _require_unmoved(factory: Factory, retell: Callable[[Case], Case], what: str) -> None:
    for log in (random_log(1), random_log(2, annotated=False)):
        predictor = _trained(factory, log)
        for prefix in prefixes(log):
            got, wanted = predictor.rank(retell(prefix)), predictor.rank(prefix)
            assert _same(got, wanted), f"{what}: after {list(prefix.types)} it says {got} instead of {wanted}"


def check_nothing_beyond_the_prefix(factory: Factory) -> None:
    """A prefix of a longer case is answered like the same events with nothing, or something else, behind them."""
    _require_unmoved(factory, lambda prefix: prefix.as_log()[0], "the events behind the prefix are seen")
    _require_unmoved(factory, _with_another_future, "the events behind the prefix are seen")


def check_case_is_not_seen(factory: Factory) -> None:
    """The same events under another case id, or with other annotations of the case, are answered alike."""
    _require_unmoved(factory, lambda prefix: _renamed(prefix.as_log())[0], "the case id or annotations are seen")


def check_codes_do_not_matter(factory: Factory) -> None:
    """A type is known by its name: the place that it has in the vocabulary of a log says nothing."""
    other = EventLog.from_codes([], [0], (UNSEEN, *reversed(TYPES)))
    _require_unmoved(factory, lambda prefix: concatenate([other, prefix.as_log()])[0], "codes are seen")


CHECKS: tuple[Check, ...] = (
    check_any_prefix_is_answered,
    check_probabilities,
    check_calibrated_covers_vocabulary,
    check_deterministic,
    check_forget_undoes_learn,
    check_forgetting_the_unlearned,
    check_learning_order,
    check_nothing_beyond_the_prefix,
    check_case_is_not_seen,
    check_codes_do_not_matter,
)
