"""The protocol: every predictor learns from the same cases, sees the same prefixes and fills the same table."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from baselines.predictor import Predictor, Ranking
from experiments.dataset import Dataset
from experiments.splits import Fold, Split
from sherpa.eventlog import Case, EventLog

if TYPE_CHECKING:
    import pandas as pd

Factory = Callable[[], Predictor]
Progress = Callable[[int], None]

_REFIT_SHARE = 0.02
"""Above this share of cases, a fold is cheaper to refit than to forget case by case."""


_COLUMNS: tuple[str, ...] = (
    "fold",
    "case",
    "step",
    "target",
    "last",
    "rank_of_target",
    "top_k",
    "p_target",
    "p_top1",
    "p_squared",
    "matched_order",
    "support",
    "supports",
    "mode",
    "backoff_depth",
    "success",
    "risks",
    "states",
    "latency_us",
)


@dataclass
class Predictions:
    """What one predictor said: one row per (fold, case, step), in columns.

    Row lists: `fold`, `case` (index into the log), `step` (length of the prefix), `target`, `rank_of_target`
    (0 = not ranked), `top_k` (events), `p_target`, `p_top1`, `p_squared` (Σ p² over ranked events),
    `matched_order` (-1 = none), `support`, `supports` (of `top_k`), `mode`, `backoff_depth`, `success`, `risks`,
    `states`, `latency_us`.
    """

    dataset: str
    predictor: str
    calibrated: bool
    top: int
    log: EventLog
    groups: Sequence[str | None]
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    refitted: int = 0

    def __len__(self) -> int:
        return len(self.columns["step"])

    def array(self, name: str) -> npt.NDArray[Any]:
        """A column as an array."""
        return np.asarray(self.columns[name])

    def add(self, fold: str, prefix: Case, target: str, ranking: Ranking, states: int, latency: float) -> None:
        """Append what one predictor said about one step."""
        place = ranking.events.index(target) if target in ranking.events else -1
        c = self.columns
        c["fold"].append(fold)
        c["case"].append(prefix.index)
        c["step"].append(len(prefix))
        c["target"].append(target)
        c["last"].append(prefix.last_type)
        c["rank_of_target"].append(place + 1)
        c["top_k"].append(ranking.events[: self.top])
        c["p_target"].append(ranking.probabilities[place] if place >= 0 else ranking.unseen)
        c["p_top1"].append(ranking.probabilities[0] if ranking.events else None)
        c["p_squared"].append(math.fsum(p * p for p in ranking.probabilities))
        c["matched_order"].append(-1 if ranking.matched_order is None else ranking.matched_order)
        c["support"].append(ranking.support)
        c["supports"].append(ranking.supports[: self.top])
        c["mode"].append(ranking.mode)
        c["backoff_depth"].append(ranking.backoff_depth)
        c["success"].append(ranking.success)
        c["risks"].append(ranking.risks[: self.top])
        c["states"].append(states)
        c["latency_us"].append(latency)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with the columns of the record format."""
        import pandas as pd

        c = self.columns
        return pd.DataFrame(
            {
                "dataset": self.dataset,
                "fold": c["fold"],
                "case_id": [self.log.case_ids[i] for i in c["case"]],
                "group": [self.groups[i] for i in c["case"]],
                "step": c["step"],
                "predictor": self.predictor,
                "target": c["target"],
                "rank_of_target": c["rank_of_target"],
                "top_k": [list(events) for events in c["top_k"]],
                "p_target": c["p_target"],
                "p_top1": c["p_top1"],
                "matched_order": [None if k < 0 else k for k in c["matched_order"]],
                "support": c["support"],
                "abstained": [not events for events in c["top_k"]],
                "backoff_depth": c["backoff_depth"],
                "latency_us": c["latency_us"],
            }
        )


@dataclass(frozen=True)
class PredictionTable:
    """What several predictors said about the same steps. The only thing that metrics read."""

    parts: dict[str, Predictions]

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts.values())

    def __getitem__(self, predictor: str) -> Predictions:
        return self.parts[predictor]

    @property
    def predictors(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def to_pandas(self) -> pd.DataFrame:
        """One data frame; a row per predictor, fold, case and step."""
        import pandas as pd

        return pd.concat([part.to_pandas() for part in self.parts.values()], ignore_index=True)


def run(
    dataset: Dataset,
    split: Split,
    predictors: Sequence[Factory],
    *,
    top: int = 3,
    online: bool = False,
    progress: Progress | None = None,
    timer: Callable[[], int] = time.perf_counter_ns,
) -> PredictionTable:
    """Test several predictors on the same folds, cases and steps; see `predict`.

    Raises
    ------
    ValueError
        If two predictors share a name.
    """
    parts: dict[str, Predictions] = {}
    for factory in predictors:
        part = predict(dataset, split, factory, top=top, online=online, progress=progress, timer=timer)
        if part.predictor in parts:
            raise ValueError(f"two predictors are called {part.predictor!r}")
        parts[part.predictor] = part
    return PredictionTable(parts)


def predict(
    dataset: Dataset,
    split: Split,
    factory: Factory,
    *,
    top: int = 3,
    online: bool = False,
    progress: Progress | None = None,
    timer: Callable[[], int] = time.perf_counter_ns,
) -> Predictions:
    """Test one predictor on every fold of a split.

    A fold that leaves out few cases forgets them and learns them again afterwards, so that leave-one-case-out costs
    each event once. Larger folds, and predictors that cannot forget, are refitted; the table counts how often.

    Parameters
    ----------
    top : int
        Length of `top_k`.
    online : bool
        Whether the predictor also learns the earlier steps of the case that it is tested on.
    progress : callable, optional
        Called with the number of cases done.
    timer : callable
        Nanoseconds; for the latency column.
    """
    log = dataset.log
    predictor = factory()
    table = Predictions(
        dataset.name, predictor.name, predictor.calibrated, top, log, [dataset.group(i) for i in range(len(log))]
    )
    fitted: Predictor | None = None
    can_forget = hasattr(predictor, "forget")
    for fold in split:
        small = fold.train is None and len(fold.test) <= max(1, int(len(log) * _REFIT_SHARE))
        if small and can_forget:
            if fitted is None:
                predictor.learn(log)
                fitted = predictor
            held_out = [log[int(i)] for i in fold.test]
            for case in held_out:
                predictor.forget(case)
            _test(table, predictor, fold, log, online, progress, timer)
            for case in held_out:
                predictor.learn(case)
        else:
            table.refitted += 1
            known = log.subset(split.train_of(fold, len(log)))

            def fit(known: EventLog = known) -> Predictor:
                fitted = factory()
                fitted.learn(known)
                return fitted

            _test(table, fit(), fold, log, online, progress, timer, None if can_forget else fit)
    return table


def _test(
    table: Predictions,
    predictor: Predictor,
    fold: Fold,
    log: EventLog,
    online: bool,
    progress: Progress | None,
    timer: Callable[[], int],
    refit: Factory | None = None,
) -> None:
    """Test one fold. `refit` gives a fresh fit for a predictor that cannot forget a prefix again."""
    for index in fold.test.tolist():
        case = log[index]
        for prefix, target in steps(case):
            if online:
                predictor.learn(prefix)
            begin = timer()
            ranking = predictor.rank(prefix)
            latency = (timer() - begin) / 1000
            table.add(fold.name, prefix, target, ranking, predictor.states, latency)
            if online and refit is not None:
                predictor = refit()
            elif online:
                predictor.forget(prefix)
        if progress is not None:
            progress(1)


def steps(case: Case) -> Iterator[tuple[Case, str]]:
    """(prefix, next type) of every step of a case: prefixes of 1 to n − 1 events."""
    types = case.types
    for length in range(1, len(types)):
        yield case.prefix(length), types[length]
