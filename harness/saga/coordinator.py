"""Coordinator: the calls on sagas. Each takes the lock, folds the log, lets the dispatcher decide, and commits."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import msgspec

from harness.saga.advice import Advisor
from harness.saga.artifacts import Artifacts
from harness.saga.checks import CheckContext, run_checks
from harness.saga.checks.base import CheckResult, PageProvider
from harness.saga.checks.browser import chromium_pages
from harness.saga.dispatch import Answer, Dependencies, Dispatcher, Signals
from harness.saga.errors import ConflictError, RefusedError, SagaError
from harness.saga.model import SagaState, Stage, check_saga_id, progress_of
from harness.saga.opsmemory import remember
from harness.saga.options import SagaOptions
from harness.saga.planning import submit_plan
from harness.saga.profiles import Profile, profile_of
from harness.saga.prompts import enriched_goal, plan_prompt, worker_context
from harness.saga.requests import Advance, read_advance, read_start
from harness.saga.sessions import Sessions
from harness.saga.store import RunStore, Turn
from sherpa.instants import NANOS_PER_MS

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORKING = ("worker_mode_injected", "eval_needs_fix_attempt", "microcompact_retry", "rework_full", "eval_deep_pending")


class Coordinator:
    """The sagas of one state root.

    Parameters
    ----------
    root : Path
    options : SagaOptions, optional
    clock : callable
        Present time in nanoseconds since the epoch.
    rng : random.Random, optional
        Draws ids of sagas and names of delimiters; those of the system without it.
    dependencies : callable, optional
        Replaces what the dispatcher needs: takes the usual `Dependencies` and gives others (planners, clarifiers,
        hosts that inject).
    pages : callable, optional
        The page provider of ``browser`` checks; Chromium without it, if it is installed.
    lock_timeout : float
        Seconds to wait for another call on the same saga.
    """

    def __init__(
        self,
        root: Path,
        options: SagaOptions | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
        rng: random.Random | None = None,
        dependencies: Callable[[Dependencies], Dependencies] = lambda usual: usual,
        pages: PageProvider | None = None,
        lock_timeout: float = 0.0,
    ) -> None:
        self.root = root
        self.options = options or SagaOptions()
        self.store = RunStore(root, clock=clock, lock_timeout=lock_timeout)
        self.sessions = Sessions(root, self._is_live)
        self._clock = clock
        self._rng = rng or secrets.SystemRandom()
        self._dependencies = dependencies
        self._pages = pages
        self._advisor = Advisor(self.options, clock=clock)

    # -- the four tools ----------------------------------------------------------------------------------------

    def start(self, parameters: Mapping[str, Any]) -> Answer:
        """Create a saga.

        Parameters
        ----------
        parameters : mapping
            ``goal``, ``profile``; ``session`` of the host, which may have one live saga.

        Raises
        ------
        SagaError
            If a parameter is wrong, or the session has a saga; then nothing was made.
        """
        given = read_start(parameters)
        profile = profile_of(given.profile)
        if given.session is None:
            return self._create(given.goal, profile, None)
        with self.sessions.starting():
            active = self.sessions.active(given.session)
            if active is not None:
                raise RefusedError(f"this session works on saga {active}; finish or cancel it first")
            answer = self._create(given.goal, profile, given.session)
            if self._is_live(answer["sagaId"]):
                self.sessions.put(given.session, answer["sagaId"])
        return answer

    def _create(self, goal: str, profile: Profile, session: str | None) -> Answer:
        payload: dict[str, Any] = {
            "profile": profile.id,
            "goal": goal,
            "clarificationLimit": profile.strategy.clarification_rounds,
        }
        if session is not None:
            payload["session"] = session
        saga_id = f"saga-{self._clock() // NANOS_PER_MS}-{''.join(self._rng.choices(_DIGITS, k=6))}"
        turn = self.store.create(saga_id, payload)
        # On the disk before anybody outside is asked: a planner may fail, the saga is there.
        turn.flush()
        answer = self._dispatch(turn, profile, Signals())
        turn.commit()
        if answer.get("reason") == "plan_required":
            return {
                "sagaId": saga_id,
                "status": "plan_required",
                "message": answer["diagnostic"],
                "planPrompt": answer["planPrompt"],
                "seq": turn.state.last_seq,
            }
        progress = answer.pop("progress")
        return {"sagaId": saga_id, "status": "started", "nextAction": answer, "progress": progress}

    def advance(self, saga_id: object, parameters: Mapping[str, Any] | None = None) -> Answer:
        """Move a saga by at most one decision.

        Parameters
        ----------
        parameters : mapping, optional
            ``planYaml``, ``replan``, ``acceptIncomplete``, ``workerFinished``, ``artifacts``, ``evalResult``,
            ``externalVerdict``, ``humanInput``, ``criteriaPatch``, ``workerDiagnostics``, ``usage``; ``stageId`` or
            ``ifSeq`` to be refused if the saga has moved on, ``requestId`` to be done once however often it is sent.

        Raises
        ------
        ConflictError
            If another call works on the saga, or it has moved on.
        SagaError
            If the call is refused; nothing of it was done.
        """
        given = read_advance(parameters or {})
        with self.store.turn(check_saga_id(saga_id)) as (turn, loaded):
            if given.request_id is not None and given.request_id in loaded.state.requests:
                answer = self._resumed(turn)
                answer["repeated"] = True
            else:
                self._check_expectations(given, loaded.state)
                answer = self._advanced(turn, given)
            turn.commit(given.request_id)
        if loaded.problems:
            answer["problems"] = loaded.problems
        return answer

    def _check_expectations(self, given: Advance, state: SagaState) -> None:
        if given.if_seq is not None and given.if_seq != state.last_seq:
            raise ConflictError(
                f"the saga has moved on: it is at {state.last_seq}, ifSeq is {given.if_seq}; ask saga_status first"
            )
        current = None if state.current is None else state.current.id
        if given.stage_id is not None and state.plan is not None and given.stage_id != current:
            raise ConflictError(
                f"the saga has moved on: its stage is {current}, not {given.stage_id}; nothing was done"
            )

    def _advanced(self, turn: Turn, given: Advance) -> Answer:
        profile = profile_of(turn.state.profile)
        if turn.state.termination is not None:
            if given.plan_yaml is not None:
                raise RefusedError("the saga has ended; a plan does not open it again. Start a new one")
            return self._dispatch(turn, profile, Signals())
        notices: list[str] = []
        if given.usage is not None:
            current = turn.state.current
            turn.emit(
                "budget_checkpoint",
                stageId=None if current is None else current.id,
                tokens=given.usage.tokens,
                wallMs=given.usage.wall_ms,
            )
        if given.plan_yaml is not None:
            refused = submit_plan(turn, given, profile, strict=self.options.strict_kinds)
            if refused is not None:
                return self._decorated(turn, profile, refused, [])
            # What was read differently from how it was written is told at once, not only logged.
            notices = list(turn.pending[-1].get("notices", ()))
        warnings: list[str] = []
        if given.artifacts:
            self._take_artifacts(turn, given, warnings)
        if given.worker_diagnostics is not None and given.worker_finished and turn.state.current is not None:
            self._record_diagnostics(turn, given.worker_diagnostics)
        elif given.worker_diagnostics is not None:
            warnings.append("workerDiagnostics was not stored: it goes with workerFinished, in a stage")
        signals = Signals(
            worker_finished=given.worker_finished,
            human_input=given.human_input,
            criteria_patch=given.criteria_patch,
            verdict=given.eval_result,
            external=given.external_verdict,
            diagnostics=given.worker_diagnostics,
        )
        answer = self._dispatch(turn, profile, signals, warnings)
        return {**answer, "notices": notices} if notices else answer

    def _take_artifacts(self, turn: Turn, given: Advance, warnings: list[str]) -> None:
        state = turn.state
        if state.kind == "awaiting_human":
            warnings.append("the artifacts were not stored: a person must decide first")
            return
        stage = state.current
        if stage is None or state.kind not in (*_WORKING, "plan_required", "eval_passed", None):
            raise RefusedError("there is no stage to hand artifacts over for; submit a plan first")
        artifacts = Artifacts(self.store.folder(turn.saga_id))
        items = artifacts.check(given.artifacts, state)
        artifacts.submit(turn, stage.id, items)
        turn.flush()

    def _record_diagnostics(self, turn: Turn, diagnostics: dict[str, Any]) -> None:
        stage = turn.state.current
        assert stage is not None
        attempt = turn.state.recovery_attempts.get(stage.id, 0) + 1
        artifacts = Artifacts(self.store.folder(turn.saga_id))
        name = artifacts.record(f"diagnostics/{stage.id}-attempt-{attempt}.json", diagnostics)
        turn.emit("diagnostics_recorded", stageId=stage.id, attempt=attempt, file=name)

    def status(self, saga_id: object) -> Answer:
        """Where a saga is; changes nothing."""
        loaded = self.store.load(check_saga_id(saga_id))
        state = loaded.state
        answer = {
            "sagaId": state.saga_id,
            "profile": state.profile,
            "goal": state.goal,
            "cursor": state.cursor,
            "totalStages": len(state.stages),
            "currentStage": None if state.current is None else state.current.id,
            "transition": state.kind,
            "termination": None if state.termination is None else msgspec.to_builtins(state.termination),
            "recoveryAttempts": state.recovery_attempts,
            "progress": progress_of(state, self.options.locale),
            "usage": msgspec.to_builtins(state.usage),
            "seq": state.last_seq,
        }
        if loaded.problems:
            answer["problems"] = loaded.problems
        return answer

    def cancel(self, saga_id: object, reason: str | None = None) -> Answer:
        """End a saga at the user's wish; its files stay.

        Raises
        ------
        RefusedError
            If it has ended already.
        """
        with self.store.turn(check_saga_id(saga_id)) as (turn, loaded):
            if loaded.state.termination is not None:
                raise RefusedError(f"saga {loaded.state.saga_id} has ended already: {loaded.state.termination.reason}")
            why = reason or "cancelled by user"
            turn.emit("saga_cancelled", reason=why)
            turn.commit()
        return {"sagaId": loaded.state.saga_id, "status": "cancelled", "reason": why}

    # -- more ways of looking ----------------------------------------------------------------------------------

    def resume(self, saga_id: object) -> Answer:
        """Go on after an interruption: advance without any signal, from whichever of the two files is left."""
        return self.advance(saga_id)

    def replay(self, saga_id: object) -> Answer:
        """Fold the log and compare the result with the snapshot; changes nothing."""
        from harness.saga.replay import replayed

        return replayed(self.store, check_saga_id(saga_id))

    def sagas(self) -> list[Answer]:
        """All sagas, shortly."""
        found: list[Answer] = []
        for saga_id in self.store.ids():
            try:
                state = self.store.load(saga_id).state
            except SagaError as error:
                found.append({"sagaId": saga_id, "error": str(error)})
                continue
            found.append(
                {
                    "sagaId": saga_id,
                    "profile": state.profile,
                    "goal": state.goal,
                    "cursor": state.cursor,
                    "totalStages": len(state.stages),
                    "status": "live" if state.termination is None else state.termination.reason,
                }
            )
        return found

    def show(self, saga_id: object) -> Answer:
        """The whole state and all events."""
        loaded = self.store.load(check_saga_id(saga_id))
        return {"state": msgspec.to_builtins(loaded.state), "events": self.store.events(loaded.state.saga_id)}

    # -- inside ------------------------------------------------------------------------------------------------

    def _is_live(self, saga_id: str) -> bool:
        try:
            return self.store.load(saga_id).state.termination is None
        except SagaError:
            return False

    def _resumed(self, turn: Turn) -> Answer:
        return self._dispatch(turn, profile_of(turn.state.profile), Signals())

    def _dispatch(self, turn: Turn, profile: Profile, signals: Signals, warnings: list[str] | None = None) -> Answer:
        dispatcher = Dispatcher(turn, self._needs(turn.saga_id, profile), warnings or [])
        answer = dispatcher.advance(signals)
        return self._decorated(turn, profile, answer, dispatcher.warnings)

    def _needs(self, saga_id: str, profile: Profile) -> Dependencies:
        artifacts = Artifacts(self.store.folder(saga_id))
        return self._dependencies(
            Dependencies(
                profile=profile,
                artifacts=artifacts,
                checks=lambda stage: self._check(stage, profile, artifacts),
                nonce=lambda: f"{self._rng.getrandbits(64):016x}",
                advise=self._advisor.advise,
                completed=lambda state: self._completed(state, artifacts),
                unattended=self.options.unattended,
            )
        )

    def _check(self, stage: Stage, profile: Profile, artifacts: Artifacts) -> list[CheckResult]:
        allowed = "command" in profile.strategy.allowed_kinds
        context = CheckContext(
            artifacts.root,
            commands=allowed and self.options.commands,
            programs=self.options.programs,
            pages=(self._pages or chromium_pages()) if self.options.browser else None,
        )
        if not allowed:
            context = with_changes(context, refusal=f"the profile {profile.id} runs no commands")
        return run_checks(stage.done_criteria, context)

    def _completed(self, state: SagaState, artifacts: Artifacts) -> str | None:
        folder = Path(self.options.memory_dir) if self.options.memory_dir else self.root / "memory"
        try:
            remember(state, artifacts, folder, self.store.stamp()[:10])
        except OSError as error:
            return f"the operation was not written down in {folder}: {error.strerror or error}"
        return None

    def _decorated(self, turn: Turn, profile: Profile, answer: Answer, warnings: list[str]) -> Answer:
        """The answer with what every caller wants to know, and what the worker or the planner has to read."""
        stage = turn.state.current
        if answer.get("reason") == "plan_required" or answer.get("status") == "plan_incomplete":
            goal = enriched_goal(turn.state.goal, turn.state.clarification_history)
            prompt = plan_prompt(profile, goal)
            advice = answer.pop("advice", None)
            answer["planPrompt"] = f"{prompt}\n\n# From memory\n{advice}" if advice else prompt
        fresh, issues = answer.pop("fresh", False), answer.get("issues", [])
        if answer.get("nextAction") in ("worker_mode_queued", "revision_queued") and stage is not None:
            failed = bool(turn.state.recovery_attempts.get(stage.id))
            advice = self._advisor.advise(turn, "worker") if failed else None
            answer["workerContext"] = worker_context(
                turn.state, stage, profile, issues=issues, advice=advice, failed_before=fresh
            )
        if warnings:
            answer["warnings"] = [*answer.get("warnings", []), *warnings]
        return {
            **answer,
            "sagaId": turn.saga_id,
            "progress": progress_of(turn.state, self.options.locale),
            "seq": turn.state.last_seq,
        }
