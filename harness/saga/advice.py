"""What the procedural memory says about a saga: always logged when it is asked, told only in advisory mode."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from harness.saga.bridge import saga_to_sherpa
from harness.saga.options import SagaOptions
from harness.saga.store import Turn
from sherpa.errors import SherpaError


class Advisor:
    """Asks one memory.

    Parameters
    ----------
    options : SagaOptions
        `advice` and `sherpa_root`; without a root nothing is asked.
    """

    def __init__(self, options: SagaOptions, *, clock: Callable[[], int]) -> None:
        self._options = options
        self._clock = clock

    def advise(self, turn: Turn, point: str) -> str | None:
        """What is to be told at a point of a saga; the exposure is an event of the saga.

        Parameters
        ----------
        point : str
            ``plan``, ``worker`` or ``evaluation``.

        Returns
        -------
        str or None
            None in shadow mode, and where a gate of the memory says no.
        """
        if self._options.advice == "off" or self._options.sherpa_root is None:
            return None
        asked = self._asked(turn)
        delivered = self._options.advice == "advisory" and asked.get("text") is not None
        text = asked.pop("text", None)
        if text is not None:
            asked["hash"] = hashlib.sha256(text.encode()).hexdigest()
        turn.emit("advisory_injected", point=point, mode=self._options.advice, delivered=delivered, **asked)
        return text if delivered else None

    def _asked(self, turn: Turn) -> dict[str, Any]:
        """State, candidates and text. A memory that does not answer is a remark, never an error of the saga."""
        from sherpa.configuration import AdvisoryOptions
        from sherpa.memory import ProceduralMemory

        events = [*turn.store.events(turn.saga_id), *turn.pending]
        try:
            with ProceduralMemory(str(self._options.sherpa_root), clock=self._clock) as memory:
                memory.ingest_batch(saga_to_sherpa(events))
                state = memory.workflow_state(turn.saga_id)
                following = memory.workflow_next(turn.saga_id, 3)
                advice = memory.advise(turn.saga_id, AdvisoryOptions(cooldown="0s"))
        except (SherpaError, OSError) as error:
            return {"reason": f"the memory did not answer: {error}"}
        found: dict[str, Any] = {
            "state": list(state.state),
            "confidence": state.confidence,
            "candidates": [{"event": c.event, "probability": c.probability} for c in following.candidates],
            "text": advice.text,
        }
        if advice.gate is not None:
            found["reason"] = f"{advice.gate}: {advice.reason}"
        return found
