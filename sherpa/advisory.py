"""Advice: a short text on where a case is, what usually comes next and what goes wrong; or the reason for silence.

It is made of the graph alone, without a model call: the same graph gives the same bytes.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from sherpa.answers import Candidate, OutcomeNote, WorkflowNext, WorkflowOutcomes, WorkflowState
from sherpa.configuration import AdvisoryOptions, milliseconds
from sherpa.estimators.abstention import Utility
from sherpa.rounding import round_half_up

TITLE = "Sherpa advisory"
ARROW = " → "
_MORE = "..."


@dataclass(frozen=True)
class Advice:
    """What is said, or which gate said no.

    Attributes
    ----------
    text : str or None
    gate : str or None
        ``enabled``, ``scope``, ``confidence``, ``content``, ``probability``, ``utility`` or ``cooldown``.
    reason : str
        What the gate found; empty if there is a text.
    """

    text: str | None
    gate: str | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {"text": self.text, "gate": self.gate, "reason": self.reason}


def advise(
    state: WorkflowState,
    following: WorkflowNext,
    outcomes: WorkflowOutcomes,
    options: AdvisoryOptions,
    *,
    refused: str | None = None,
    since_last_ms: int | None = None,
) -> Advice:
    """Advice on a case, if every gate lets it through.

    Parameters
    ----------
    state, following, outcomes
        Answers of the memory on the case.
    options : AdvisoryOptions
    refused : str, optional
        Why the session is out of scope; None if it is in scope.
    since_last_ms : int, optional
        Milliseconds since the case was advised last; None if it never was.
    """
    if not options.enabled:
        return Advice(None, "enabled", "advisory.enabled is off")
    if refused is not None:
        return Advice(None, "scope", refused)
    if not state.confidence > options.inject_threshold:
        found = f"confidence {state.confidence:.2f} is not above {options.inject_threshold:.2f}"
        return Advice(None, "confidence", found)
    candidates = following.candidates[: options.max_candidates]
    notes = outcomes.outcomes[: options.max_risks]
    if not candidates and not notes:
        return Advice(None, "content", "no candidate and no branch that fails or stalls")
    closed = _by_probability(following, options)
    if closed is not None:
        return closed
    cooldown = milliseconds(options.cooldown)
    if since_last_ms is not None and 0 <= since_last_ms < cooldown:
        return Advice(None, "cooldown", f"advised {since_last_ms / 1000:.0f} s ago; the pause is {options.cooldown}")
    return Advice(_cut(_text(state, candidates, notes), options.max_chars))


def _by_probability(following: WorkflowNext, options: AdvisoryOptions) -> Advice | None:
    """The gates that need to know how often such advice comes true."""
    given = following.calibrated_confidence
    calibrated = given if isinstance(given, float | int) else None
    if options.min_probability is not None:
        if calibrated is None:
            return Advice(None, "probability", "no calibrated probability; choose an estimator, or give it more cases")
        if calibrated < options.min_probability:
            return Advice(None, "probability", f"{calibrated:.2f} is below {options.min_probability:.2f}")
    if options.utility_wrong is not None:
        if calibrated is None:
            return Advice(None, "utility", "no calibrated probability; choose an estimator, or give it more cases")
        threshold = Utility(wrong=options.utility_wrong).threshold
        if calibrated < threshold:
            return Advice(None, "utility", f"{calibrated:.2f} is below {threshold:.2f}, from which it would pay")
    return None


def _text(state: WorkflowState, candidates: tuple[Candidate, ...], notes: tuple[OutcomeNote, ...]) -> str:
    lines = [TITLE, f"Current state: {ARROW.join(state.state)}", f"Confidence: {state.confidence:.2f}"]
    if candidates:
        lines.append("Likely next:")
        lines += [
            f"{at}. {c.event} ({round_half_up(100 * c.probability, 0):.0f}%)" for at, c in enumerate(candidates, 1)
        ]
    if notes:
        lines.append("Outcome note:")
        lines += [f"- {note.branch} branch has elevated {note.kind} rate" for note in notes]
        lines += ["Suggested action:", f"- {notes[0].suggested_intervention}"]
    return "\n".join(lines)


def _cut(text: str, most: int) -> str:
    """At most so many characters, never between a letter and what belongs to it."""
    if len(text) <= most:
        return text
    end = most - len(_MORE)
    while end > 0 and _continues(text, end):
        end -= 1
    return text[:end].rstrip() + _MORE


def _continues(text: str, at: int) -> bool:
    """Whether the character at a place belongs to the one before: a mark, a joiner, a modifier, half of a flag."""
    char, before = text[at], text[at - 1]
    if unicodedata.category(char) in ("Mn", "Me", "Mc") or "\u200d" in (char, before):
        return True
    if 0x1F3FB <= ord(char) <= 0x1F3FF:
        return True
    flags = 0
    while at - 1 - flags >= 0 and 0x1F1E6 <= ord(text[at - 1 - flags]) <= 0x1F1FF:
        flags += 1
    return 0x1F1E6 <= ord(char) <= 0x1F1FF and flags % 2 == 1
