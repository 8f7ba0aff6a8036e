"""All rivals by name."""

from __future__ import annotations

from collections.abc import Callable

from baselines.blended import Blended
from baselines.global_majority import GlobalMajority
from baselines.interpolated_discounting import InterpolatedDiscounting
from baselines.lesson_prior import LessonPrior
from baselines.predictor import Predictor
from baselines.raw_ngram import RawNgram
from baselines.repeat_last import RepeatLast
from baselines.started_finished import StartedFinished
from baselines.workflow_class_ngram import WorkflowClassNgram
from sherpa.estimators.registry import ESTIMATORS

PUBLISHED = ("global-majority", "raw-ngram", "workflow-class-ngram", "semantic-rag-lite", "textual-lesson-prior")
"""The rivals of the original, in its order."""

FLOORS = ("repeat-last", "started-finished")
SMOOTHED = ("interpolated-discounting",)
RIVALS = (*PUBLISHED, *FLOORS)
"""What a memory has to beat (H3)."""

BASELINES = (*RIVALS, *SMOOTHED)
BLENDED = tuple(ESTIMATORS)
LEARNED = ("logistic-regression", "gradient-boosting", "recurrent")
NAMED = (*BLENDED, *LEARNED)
"""Run where they are asked for by name: they are not among the rivals by default."""


def baseline(name: str, *, order: int = 3, fallback: bool = True, annotations: bool = False) -> Callable[[], Predictor]:
    """A factory of fresh predictors.

    Parameters
    ----------
    name : str
        One of `BASELINES` or `NAMED`.
    order : int
        Longest suffix of the n-gram rivals.
    fallback : bool
        Rank by overall frequency where a rival has nothing better.
    annotations : bool
        Let rivals read what people annotated about a case (class, notes, blockers, risks) and its id, as the original
        does. A live predictor has none of it.

    Raises
    ------
    KeyError
        If the name is unknown.
    """

    def rag() -> Predictor:
        from baselines.semantic_rag_lite import SemanticRagLite

        return SemanticRagLite(fallback=fallback, see_case=annotations)

    if name in NAMED:
        return lambda: Blended(name, max(order, 5))
    factories: dict[str, Callable[[], Predictor]] = {
        "global-majority": GlobalMajority,
        "raw-ngram": lambda: RawNgram(order, fallback=fallback),
        "workflow-class-ngram": lambda: WorkflowClassNgram(order, fallback=fallback, see_class=annotations),
        "semantic-rag-lite": rag,
        "textual-lesson-prior": lambda: LessonPrior(fallback=fallback, see_class=annotations),
        "interpolated-discounting": lambda: InterpolatedDiscounting(max(order, 5)),
        "repeat-last": RepeatLast,
        "started-finished": lambda: StartedFinished(fallback=fallback),
    }
    return factories[name]
