"""The conformance suite: what anything that predicts must hold, whoever wrote it.

`check_predictor` runs every check of `CHECKS`. A check is a plain function of a factory; it raises AssertionError
with the step at which the contract is broken. The logs are drawn by a seeded generator, so a failure repeats.

Examples
--------
>>> from baselines.procedural_memory import ProceduralMemoryPredictor
>>> from sherpa.config import EngineConfig
>>> check_predictor(lambda: ProceduralMemoryPredictor(EngineConfig()))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from baselines.predictor import Predictor, Ranking
from sherpa.eventlog import Case, EventLog

Factory = Callable[[], Predictor]
Check = Callable[[Factory], None]

TOLERANCE = 1e-9
"""By how much sums of probabilities may be off."""

TYPES = ("task.started", "file.read", "tool.failed", "message.user.stop", "tests.run", "task.failed", "task.completed")
OTHER_TYPES = ("deploy.started", "file.read", "review.requested", "task.completed", "deploy.failed")
UNSEEN = "never.seen"
_EPOCH = 1_767_225_600 * 10**9
_FAMILIES = ("code-fix", "research")
_RESPONSES = ("stop", "thanks")


def check_predictor(factory: Factory, checks: Sequence[Check] | None = None) -> None:
    """Run the conformance suite.

    Parameters
    ----------
    factory : callable
        Gives a fresh predictor that has learned nothing.
    checks : sequence of callable, optional
        The checks to run; all of `CHECKS` by default.

    Raises
    ------
    AssertionError
        At the first check that fails; the message starts with the predictor's name and the check's.
    """
    name = factory().name
    for check in CHECKS if checks is None else checks:
        try:
            check(factory)
        except AssertionError as error:
            raise AssertionError(f"{name}: {check.__name__}: {error}") from error


# -- logs ------------------------------------------------------------------------------------------------------


def random_log(
    seed: int, *, cases: int = 8, longest: int = 7, types: Sequence[str] = TYPES, prefix: str = "case"
) -> EventLog:
    """A log of random cases of 1 to `longest` events, with times, outcomes, replies and families."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, longest + 1, cases))))
    size = int(offsets[-1])
    return EventLog.from_codes(
        rng.integers(0, len(types), size),
        offsets,
        types,
        case_ids=[f"{prefix}-{seed}-{i}" for i in range(cases)],
        instants=_EPOCH + np.cumsum(rng.integers(0, 10**10, size)),
        outcomes=rng.integers(0, 3, size),
        responses=rng.integers(-1, len(_RESPONSES), size),
        response_vocabulary=_RESPONSES,
        families=rng.integers(-1, len(_FAMILIES), size),
        family_vocabulary=_FAMILIES,
    )


def plain_log(cases: Sequence[Sequence[str]]) -> EventLog:
    """A log of types and nothing else."""
    types = list(dict.fromkeys(t for case in cases for t in case))
    codes = [types.index(t) for case in cases for t in case]
    return EventLog.from_codes(codes, np.cumsum([0, *map(len, cases)]), types)


def tied_log() -> EventLog:
    """Every pair of types once, in a shuffled order: all that follow a type are seen equally often."""
    pairs = [(a, b) for a in TYPES for b in TYPES]
    return plain_log([pairs[i] for i in np.random.default_rng(7).permutation(len(pairs)).tolist()])


def prefixes(log: EventLog, cases: int = 12) -> Iterator[Case]:
    """All prefixes, from the empty one to the whole, of the first cases of a log."""
    for index in range(min(cases, len(log))):
        for length in range(len(log[index]) + 1):
            yield log[index].prefix(length)


def _retold(case: Case, *, case_id: str | None = None, types: Sequence[str] | None = None) -> Case:
    """The same events in a log of their own, under another case id or on another vocabulary."""
    log = case.as_log()
    names = log.vocabulary if types is None else tuple(types)
    return EventLog.from_codes(
        np.array([names.index(t) for t in case.types], dtype=np.int64),
        log.offsets,
        names,
        case_ids=[case.case_id if case_id is None else case_id],
        instants=log.instants,
        outcomes=log.outcomes,
        responses=log.responses,
        response_vocabulary=log.response_vocabulary,
        procedures=log.procedures,
        families=log.families,
        family_vocabulary=log.family_vocabulary,
    )[0]


# -- comparing -------------------------------------------------------------------------------------------------


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _trained(factory: Factory, *logs: EventLog | Case) -> Predictor:
    predictor = factory()
    for log in logs:
        predictor.learn(log)
    return predictor


def _rank(predictor: Predictor, prefix: Case, what: str) -> Ranking:
    try:
        return predictor.rank(prefix)
    except Exception as error:
        raise AssertionError(f"rank raises {type(error).__name__} ({error}) {what}") from error


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(abs(x - y) <= TOLERANCE for x, y in zip(a, b, strict=True))


def _difference(got: Ranking, wanted: Ranking) -> str | None:
    """The first part in which two rankings differ, in words."""
    for part in ("events", "matched_order", "backoff_depth", "support", "supports", "mode", "risks"):
        a, b = getattr(got, part), getattr(wanted, part)
        if a != b:
            return f"{part} {a!r} instead of {b!r}"
    if not _close(got.probabilities, wanted.probabilities):
        return f"probabilities {got.probabilities!r} instead of {wanted.probabilities!r}"
    a, b = got.success, wanted.success
    if a != b and (a is None or b is None or not _close((a,), (b,))):
        return f"success {a!r} instead of {b!r}"
    return None


def _without_noise(got: Ranking, wanted: Ranking) -> Ranking:
    """`got` in the order of `wanted`, where they differ by nothing but how sums of floating-point numbers round.

    Events whose probabilities agree within the tolerance, but not to the last bit, may trade places. Where they agree
    to the last bit nothing was rounded, so a tie has to be broken the same way.
    """
    mine = dict(zip(got.events, got.probabilities, strict=True))
    theirs = dict(zip(wanted.events, wanted.probabilities, strict=True))
    if mine.keys() != theirs.keys() or not _close([mine[e] for e in wanted.events], wanted.probabilities):
        return got
    for event, other in zip(got.events, wanted.events, strict=True):
        tied = [e for e, p in theirs.items() if abs(p - theirs[other]) <= TOLERANCE]
        if event != other and (event not in tied or all(mine[e] == theirs[e] for e in tied)):
            return got
    supports = dict(zip(got.events, got.supports, strict=True)) if got.supports else {}
    return replace(
        got,
        events=wanted.events,
        probabilities=tuple(mine[e] for e in wanted.events),
        supports=tuple(supports[e] for e in wanted.events) if got.supports else (),
    )


def _require_same_ranking(got: Ranking, wanted: Ranking, prefix: Case, what: str) -> None:
    found = _difference(got, wanted)
    _require(found is None, f"{what}: after {list(prefix.types)} it says {found}")


def _require_same_state(got: Predictor, wanted: Predictor, asked: Iterable[Case], what: str) -> None:
    """Both answer alike after every prefix and hold equally much."""
    for prefix in asked:
        _require_same_ranking(_rank(got, prefix, what), _rank(wanted, prefix, what), prefix, what)
    _require(got.states == wanted.states, f"{what}: it holds {got.states} states instead of {wanted.states}")


def _require_distribution(ranking: Ranking, prefix: Case) -> None:
    after = f"after {list(prefix.types)}"
    events, shares = ranking.events, ranking.probabilities
    _require(len(shares) == len(events), f"{after}: {len(shares)} probabilities for {len(events)} events")
    _require(len(set(events)) == len(events), f"{after}: an event is ranked twice in {events!r}")
    for event, p in zip(events, shares, strict=True):
        _require(0 <= p <= 1, f"{after}: the probability of {event!r} is {p}")
    _require(math.fsum(shares) <= 1 + TOLERANCE, f"{after}: the probabilities sum to {math.fsum(shares)}")


# -- checks ----------------------------------------------------------------------------------------------------


def check_probabilities(factory: Factory) -> None:
    """Probabilities lie in [0, 1], one per event, and sum to at most 1; no event is ranked twice."""
    known, other = random_log(1), random_log(2, types=OTHER_TYPES)
    for learned in ((), (known,), (known, other), (tied_log(),)):
        predictor = _trained(factory, *learned)
        for log in (known, other):
            for prefix in prefixes(log):
                _require_distribution(_rank(predictor, prefix, f"after {list(prefix.types)}"), prefix)


def check_calibrated_covers_vocabulary(factory: Factory) -> None:
    """A calibrated predictor ranks every learned type; what is left for the end and the unseen is not negative."""
    predictor = factory()
    if not predictor.calibrated:
        return
    learned: set[str] = set()
    asked = [*prefixes(random_log(1)), *prefixes(random_log(2, types=OTHER_TYPES))]
    for log in (random_log(3), random_log(4, types=OTHER_TYPES)):
        predictor.learn(log)
        learned.update(t for case in log for t in case.types)
        for prefix in asked:
            ranking = _rank(predictor, prefix, f"after {list(prefix.types)}")
            missing = sorted(learned.difference(ranking.events))
            _require(not missing, f"after {list(prefix.types)} it does not rank {missing}, which it has learned")
            _require_distribution(ranking, prefix)


def check_forget_undoes_learn(factory: Factory) -> None:
    """Learning A and B and forgetting B leaves A alone, in bulk, case by case and for a case among many."""
    small, large = random_log(1), random_log(2, cases=160, prefix="large")
    others = random_log(3, types=OTHER_TYPES, prefix="other")
    for kept, gone in ((small, others), (others, small), (small, large), (large, small)):
        wanted = _trained(factory, kept)
        asked = [*prefixes(small), *prefixes(others), *prefixes(large)]
        bulk = _trained(factory, kept, gone)
        bulk.forget(gone)
        _require_same_state(bulk, wanted, asked, "after a log was forgotten")
        single = _trained(factory, kept, *gone)
        for case in reversed(list(gone)):
            single.forget(case)
        _require_same_state(single, wanted, asked, "after a log was forgotten case by case")
    for index in range(len(small)):
        rest = small.subset([i for i in range(len(small)) if i != index])
        predictor = _trained(factory, small)
        predictor.forget(small[index])
        _require_same_state(predictor, _trained(factory, rest), prefixes(small), f"without case {index}")
        predictor.learn(small[index])
        _require_same_state(predictor, _trained(factory, small), prefixes(small), f"with case {index} back")


def check_forgetting_all_leaves_nothing(factory: Factory) -> None:
    """A predictor that has forgotten everything is a fresh one."""
    for log in (random_log(1), tied_log(), random_log(2, cases=160)):
        predictor = _trained(factory, log)
        for prefix in prefixes(log):
            _rank(predictor, prefix, "before it forgets")
        predictor.forget(log)
        _require_same_state(predictor, factory(), prefixes(log), "after everything was forgotten")


def check_forgetting_the_unlearned(factory: Factory) -> None:
    """Forgetting a case with events that were never learned raises ValueError or does nothing."""
    log = plain_log([("task.started", "file.read", "tests.run", "task.completed"), ("file.read", "task.failed")])
    strange = plain_log(
        [
            (UNSEEN, UNSEEN),
            (UNSEEN, "file.read"),
            ("task.started", "file.read", UNSEEN, "task.completed"),
            ("task.started", "file.read", "tests.run", "task.completed", UNSEEN),
        ]
    )
    for case in strange:
        for learned in ((), (log,)):
            predictor = _trained(factory, *learned)
            try:
                predictor.forget(case)
            except ValueError:
                pass
            except Exception as error:
                raise AssertionError(
                    f"forget raises {type(error).__name__} ({error}) for the unlearned {list(case.types)}"
                ) from error
            asked = [*prefixes(log), *prefixes(strange)]
            what = f"after the unlearned {list(case.types)} should be forgotten"
            _require_same_state(predictor, _trained(factory, *learned), asked, what)


def check_learning_order(factory: Factory) -> None:
    """The order in which cases are learned does not matter, nor whether they come at once or one by one.

    Sums of floating-point numbers depend on it in their last digits; see `_without_noise`.
    """
    rng = np.random.default_rng(11)
    for log in (random_log(1), tied_log(), random_log(2, cases=160)):
        asked = [*prefixes(log), *prefixes(random_log(5))]
        wanted = _trained(factory, log)
        shuffled = log.subset(rng.permutation(len(log)).astype(np.int64))
        for what, predictor in (
            ("after learning in another order", _trained(factory, shuffled)),
            ("after learning case by case", _trained(factory, *shuffled)),
        ):
            for prefix in asked:
                answer = _rank(wanted, prefix, what)
                _require_same_ranking(_without_noise(_rank(predictor, prefix, what), answer), answer, prefix, what)
            _require(predictor.states == wanted.states, f"{what}: it holds {predictor.states} states")


def check_deterministic(factory: Factory) -> None:
    """Two predictors with the same past answer alike, ties included, and so does one that is asked twice."""
    for log in (tied_log(), random_log(1)):
        asked = [*prefixes(log, cases=60), *prefixes(random_log(5))]
        first, second = _trained(factory, log), _trained(factory, log)
        answers = [_rank(first, prefix, "after learning") for prefix in asked]
        for prefix, answer in zip(asked, answers, strict=True):
            _require_same_ranking(_rank(second, prefix, "after learning"), answer, prefix, "a second predictor differs")
            _require_same_ranking(_rank(first, prefix, "when asked again"), answer, prefix, "asked again")


def check_nothing_beyond_the_prefix(factory: Factory) -> None:
    """A prefix of a longer case is answered like the same events with nothing behind them."""
    log = random_log(1)
    predictor = _trained(factory, log, random_log(3))
    for asked in (log, random_log(5)):
        for prefix in prefixes(asked):
            alone = prefix.as_log()[0]
            what = "the events behind the prefix change the answer"
            _require_same_ranking(_rank(predictor, prefix, what), _rank(predictor, alone, what), prefix, what)


def check_case_ids_do_not_matter(factory: Factory) -> None:
    """The same events under another case id are answered alike."""
    log = random_log(1)
    predictor = _trained(factory, log)
    for prefix in prefixes(log):
        wanted = _rank(predictor, _retold(prefix), "for a copy of a prefix")
        for case_id in ("another id", log.case_ids[-1], "task.completed"):
            got = _rank(predictor, _retold(prefix, case_id=case_id), "for another case id")
            _require_same_ranking(got, wanted, prefix, f"the case id {case_id!r} changes the answer")


def check_codes_do_not_matter(factory: Factory) -> None:
    """A type is known by its name: the place that it has in the vocabulary of a log says nothing."""
    log = random_log(1)
    predictor = _trained(factory, log)
    for prefix in prefixes(log):
        wanted = _rank(predictor, _retold(prefix), "for a copy of a prefix")
        got = _rank(predictor, _retold(prefix, types=(UNSEEN, *reversed(TYPES))), "on another vocabulary")
        _require_same_ranking(got, wanted, prefix, "the order of the vocabulary changes the answer")


def check_unseen_events(factory: Factory) -> None:
    """A prefix may hold events that were never learned."""
    predictor = _trained(factory, random_log(1))
    strange = plain_log([(UNSEEN, "file.read", UNSEEN, "task.started", UNSEEN, UNSEEN, UNSEEN, UNSEEN)])
    for prefix in prefixes(strange):
        _require_distribution(_rank(predictor, prefix, f"after the unseen {list(prefix.types)}"), prefix)


def check_empty_prefix(factory: Factory) -> None:
    """A prefix may hold no events at all."""
    log = random_log(1)
    predictor = _trained(factory, log)
    for prefix in (log[0].prefix(0), log[len(log) - 1].prefix(0), log[1].prefix(0).as_log()[0]):
        _require_distribution(_rank(predictor, prefix, "after an empty prefix"), prefix)


def check_nothing_learned(factory: Factory) -> None:
    """A predictor may be asked before it has learned anything, or when all it has learned holds no step."""
    log = random_log(1)
    empty, single = EventLog.from_codes([], [0], ()), plain_log([("task.started",)])
    for learned in ((), (empty,), (single,)):
        predictor = _trained(factory, *learned)
        _require(predictor.states >= 0, f"it holds {predictor.states} states")
        for prefix in prefixes(log):
            _require_distribution(_rank(predictor, prefix, "when nothing was learned"), prefix)


CHECKS: tuple[Check, ...] = (
    check_nothing_learned,
    check_empty_prefix,
    check_unseen_events,
    check_probabilities,
    check_calibrated_covers_vocabulary,
    check_deterministic,
    check_forget_undoes_learn,
    check_forgetting_all_leaves_nothing,
    check_forgetting_the_unlearned,
    check_learning_order,
    check_nothing_beyond_the_prefix,
    check_case_ids_do_not_matter,
    check_codes_do_not_matter,
)
"""Every check of `check_predictor`, in the order in which they run."""
