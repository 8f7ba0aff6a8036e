"""Evaluations made short, so that a worker who begins anew is not buried under what went wrong before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.saga.model import SagaState, Stage

LONGEST = 200
_FULL, _COMPACT = 1, 3


def shortened(text: str, most: int = LONGEST) -> str:
    """At most so many characters, with three dots where something was cut."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def microcompact(evaluation: Mapping[str, Any], stage_id: str, pointer: str) -> dict[str, Any]:
    """An evaluation as verdict, score, summary of at most 200 characters, and where the whole of it lies."""
    source = evaluation.get("summary") or evaluation.get("details") or "; ".join(_issues(evaluation))
    score = evaluation.get("score")
    return {
        "verdict": "passed" if evaluation.get("passed") else "rework",
        "score": score if isinstance(score, int | float) and not isinstance(score, bool) else None,
        "summary": shortened(str(source)),
        "pointer": pointer,
        "stageId": stage_id,
    }


def is_compacted(evaluation: Mapping[str, Any]) -> bool:
    """Whether it is the short form."""
    return all(key in evaluation for key in ("verdict", "summary", "pointer"))


def collapse_history(entries: Sequence[Mapping[str, Any]], cursor: int) -> list[str]:
    """Past evaluations as text: near ones whole, those two or three stages back short, older ones as one line.

    Parameters
    ----------
    entries : sequence of mapping
        ``stageId``, ``index`` of the stage, and the evaluation as ``evalData``.
    cursor : int
        The present stage.
    """
    lines = []
    for entry in entries:
        found, stage = entry["evalData"], entry["stageId"]
        distance = cursor - entry["index"]
        if distance <= _FULL:
            lines.append(
                f"Stage {stage}: {_verdict(found)} ({_score(found)}): {'; '.join(_issues(found)) or 'no issues'}"
            )
        elif distance <= _COMPACT:
            short = found if is_compacted(found) else microcompact(found, stage, "")
            lines.append(f"Stage {stage}: {_verdict(found)} ({_score(found)}): {short['summary'] or 'no issues'}")
        else:
            lines.append(f"Stage {stage}: {_verdict(found)} ({_score(found)})")
    return lines


def assemble_prompt(prefix: str, profile: str, state: SagaState, stage: Stage, done: Sequence[str]) -> str:
    """A prompt whose beginning stays the same from call to call, so that caches of it stay good.

    Parameters
    ----------
    prefix : str
        The same for all sagas.
    profile : str
        The same for all sagas of a profile.
    done : sequence of str
        A line per stage that is finished.
    """
    criteria = ", ".join(" ".join(str(c[k]) for k in ("kind", "path") if c.get(k)) for c in stage.done_criteria)
    dynamic = [
        f"Saga {state.saga_id}, stage {stage.id}: {stage.title}",
        f"Goal: {stage.goal or stage.title}",
        f"Criteria: {criteria}",
        *done,
    ]
    return "\n\n".join([prefix, f"Profile {state.profile}: {profile}", "\n".join(dynamic)])


def _issues(evaluation: Mapping[str, Any]) -> list[str]:
    issues = evaluation.get("issues")
    return [str(issue) for issue in issues] if isinstance(issues, list | tuple) else []


def _verdict(evaluation: Mapping[str, Any]) -> str:
    given = evaluation.get("verdict")
    if given is not None:
        return str(given)
    return "passed" if evaluation.get("passed") else "failed"


def _score(evaluation: Mapping[str, Any]) -> str:
    score = evaluation.get("score")
    return "no score" if score is None else f"{score}"
