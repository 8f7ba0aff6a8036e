"""Predictions against what people annotated: expected events, silence, points where advice is due, how cases ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments import metrics
from experiments.dataset import Dataset, StepExpectation
from experiments.protocol import Predictions
from sherpa.terminal import OUTCOMES

SPEAK_AT = 0.75
"""A prediction speaks from this probability of its first rank on: the published threshold of injected advice."""


@dataclass(frozen=True)
class Advice:
    """How speaking and staying silent fit the annotations.

    Attributes
    ----------
    steps, spoken : int
        Tested steps, and those at which the predictor speaks.
    points, met : int
        Points where advice is due (an expected event is annotated), and those at which it speaks and names one first.
    silences, kept : int
        Steps at which silence is annotated, and those at which it is silent.
    spoken_at_points, spoken_at_annotated, harmful : int
        Points and annotated steps at which it speaks, and those at which what it names first is an annotated risk.
    cases : int
        Tested cases.
    """

    steps: int
    spoken: int
    points: int
    met: int
    silences: int
    kept: int
    spoken_at_points: int
    spoken_at_annotated: int
    harmful: int
    cases: int

    def to_json(self) -> dict[str, Any]:
        return {
            "threshold": SPEAK_AT,
            "fireRate": _share(self.spoken, self.steps),
            "advisoriesPerCase": _share(self.spoken, self.cases),
            "interventionPoints": self.points,
            "precision": _share(self.met, self.spoken_at_points),
            "recall": _share(self.met, self.points),
            "silenceSteps": self.silences,
            "silencePrecision": _share(self.kept, self.silences),
            "harmRate": _share(self.harmful, self.spoken_at_annotated),
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def advice(
    first: Sequence[str | None],
    p_first: Sequence[float | None],
    keys: Sequence[tuple[int, int]],
    said: Mapping[tuple[int, int], StepExpectation],
) -> Advice:
    """Score speaking and silence.

    Parameters
    ----------
    first, p_first : per step the first-ranked event and its probability
    keys : per step (case, step)
    said : annotations by (case, step); an empty ``expected_next`` means silence
    """
    spoken = points = met = silences = kept = at_points = at_annotated = harmful = 0
    for event, p, key in zip(first, p_first, keys, strict=True):
        speaks = p is not None and p >= SPEAK_AT
        spoken += speaks
        found = said.get(key)
        if found is None:
            continue
        at_annotated += speaks
        harmful += speaks and event in (found.expected_risks or ())
        if found.expected_next:
            points += 1
            at_points += speaks
            met += speaks and event in found.expected_next
        elif found.expected_next is not None:
            silences += 1
            kept += not speaks
    cases = len({case for case, _ in keys})
    return Advice(len(keys), spoken, points, met, silences, kept, at_points, at_annotated, harmful, cases)


def annotated_report(dataset: Dataset, part: Predictions, top_k: int) -> dict[str, Any] | None:
    """Everything that annotations allow to be said about one arm; None for data without annotations."""
    said = {
        (index, e.step): e
        for index in range(len(dataset.cases))
        for e in dataset.annotations(index).expectations.next_by_step
    }
    ends = terminal_agreement(dataset)
    if not said and ends is None:
        return None
    c = part.columns
    keys = list(zip(c["case"], c["step"], strict=True))
    wanted = [(said[key].expected_next, top) for key, top in zip(keys, c["top_k"], strict=True) if key in said]
    expected = [(set(names), top) for names, top in wanted if names]
    return {
        "expectedNext": {
            "steps": len(expected),
            "top1": metrics.mean([bool(top) and top[0] in names for names, top in expected]),
            "topK": metrics.mean([bool(names & set(top[:top_k])) for names, top in expected]),
        },
        "advice": advice([top[0] if top else None for top in c["top_k"]], c["p_top1"], keys, said).to_json(),
        "terminalOutcome": ends,
    }


def terminal_agreement(dataset: Dataset) -> dict[str, Any] | None:
    """How often the terminal outcome that is read off the events is the annotated one; None if none is annotated."""
    pairs = [
        (wanted, OUTCOMES[int(dataset.log.terminal[index])])
        for index in range(len(dataset.cases))
        if (wanted := dataset.annotations(index).expectations.terminal_outcome) is not None
    ]
    if not pairs:
        return None
    return {"cases": len(pairs), "agreement": metrics.mean([wanted == found for wanted, found in pairs])}
