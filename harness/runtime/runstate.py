"""Everything a worker must know about a run, from its log alone: the same for a first start and for a resume."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.runtime.accounts import Accounts
from harness.runtime.events import RunEvent

DONE_BADLY = frozenset({"failed", "escalated", "cancelled", "budget_exhausted"})


class NodeRecord:
    """What the log says about one node."""

    __slots__ = (
        "admission", "attempt_open", "attempts", "charged", "child", "error", "finished_ok", "in_doubt", "iterations",
        "iterations_done", "loop_reason", "messages", "outcome", "output_sha", "owner", "redos", "resolution", "state",
        "tool_error",
    )  # fmt: skip

    def __init__(self) -> None:
        self.state: str | None = None
        self.owner: str | None = None
        self.error: str | None = None
        self.attempts = 0
        self.attempt_open = False
        self.redos = 0
        self.in_doubt = False
        self.resolution: dict[str, Any] | None = None
        self.admission: dict[str, Any] | None = None
        self.finished_ok: bool | None = None
        self.tool_error: str | None = None
        self.output_sha: str | None = None
        self.charged = False
        self.child: dict[str, Any] | None = None
        self.outcome = False
        self.messages: list[dict[str, Any]] | None = None
        self.iterations = 0
        self.iterations_done = 0
        self.loop_reason: str | None = None


class RunState:
    """The log of one run, folded.

    Attributes
    ----------
    nodes : dict
        Node key → record.
    reviews : dict
        Subject → (verdict, channel error) of reviews that ended.
    calls : dict
        Session of the model → answers so far.
    answers : dict
        (node, session, request) → hashes of answers that were given before this worker began.
    """

    def __init__(self) -> None:
        self.problem_sha = ""
        self.root: dict[str, Any] | None = None
        self.fingerprint: dict[str, Any] | None = None
        self.terminal: tuple[str, str | None] | None = None
        self.nodes: dict[str, NodeRecord] = {}
        self.reviews: dict[str, tuple[str, str | None]] = {}
        self.journalled: set[str] = set()
        self.accounts = Accounts()
        self.calls: dict[str, int] = {}
        self.answers: dict[tuple[str, str, str], list[str]] = {}
        self.root_outputs: str | None = None
        self.live = False

    @classmethod
    def of(cls, events: Iterable[RunEvent]) -> RunState:
        """Fold events."""
        state = cls()
        for event in events:
            state.apply(event)
        state.live = True
        return state

    def node(self, key: str) -> NodeRecord:
        """The record of a node, made if there is none."""
        record = self.nodes.get(key)
        if record is None:
            record = self.nodes[key] = NodeRecord()
        return record

    def forget(self, keys: Iterable[str]) -> None:
        """Let records go that are not looked at again; those with a child plan stay."""
        for key in keys:
            record = self.nodes.get(key)
            if record is not None and record.child is None:
                del self.nodes[key]

    def apply(self, event: RunEvent) -> None:
        """Fold one event."""
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event.node_key or "", event.payload)

    # -- one method per kind of event --------------------------------------------------------------------------

    def _run_started(self, key: str, payload: dict[str, Any]) -> None:
        self.problem_sha = payload["problem_sha"]

    def _plan_recorded(self, key: str, payload: dict[str, Any]) -> None:
        if payload.get("child_plan") is None:
            self.root = payload
        else:
            self.node(key).child = payload

    def _env_fingerprint(self, key: str, payload: dict[str, Any]) -> None:
        self.fingerprint = payload

    def _run_terminal(self, key: str, payload: dict[str, Any]) -> None:
        self.terminal = payload["status"], payload.get("error")

    def _run_resumed(self, key: str, payload: dict[str, Any]) -> None:
        self.terminal = None

    def _node_created(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        if record.state is None:
            record.state = payload["state"]

    def _node_state_changed(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.state = payload["new"]
        record.owner = payload.get("owner_session", record.owner)
        record.error = payload.get("error")
        record.output_sha = payload.get("outputs_sha", record.output_sha)
        if payload.get("root_return"):
            self.root_outputs = record.output_sha
        if record.state == "completed" and payload.get("leaf"):
            # What only matters while it runs is let go, so that a long run does not grow with its history.
            record.admission = record.tool_error = record.owner = None

    def _attempt_started(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.attempts += 1
        record.attempt_open, record.in_doubt, record.finished_ok, record.charged = True, False, None, False
        record.admission = record.tool_error = record.resolution = None

    def _attempt_finished(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.attempt_open, record.in_doubt = False, False

    def _admission_checked(self, key: str, payload: dict[str, Any]) -> None:
        self.node(key).admission = payload

    def _tool_call_started(self, key: str, payload: dict[str, Any]) -> None:
        self.node(key).in_doubt = True

    def _tool_call_finished(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.in_doubt, record.finished_ok = False, payload["ok"]
        record.output_sha, record.tool_error = payload.get("output_sha"), payload.get("error")

    def _in_doubt_resolved(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.resolution = payload
        if payload["decision"] == "redo":
            record.redos += 1

    def _usage_checkpoint(self, key: str, payload: dict[str, Any]) -> None:
        self.accounts.charge(key, payload)
        if "attempts" in payload:
            self.node(key).charged = True

    def _node_progress(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.iterations = payload["iterations"]
        if payload.get("done"):
            record.loop_reason = payload["reason"]

    def _loop_iteration_done(self, key: str, payload: dict[str, Any]) -> None:
        self.node(key).iterations_done = payload["iteration"]

    def _message_delivered(self, key: str, payload: dict[str, Any]) -> None:
        record = self.node(key)
        record.messages = [*(record.messages or ()), payload]

    def _decompose_outcome(self, key: str, payload: dict[str, Any]) -> None:
        self.node(key).outcome = True

    def _review_round(self, key: str, payload: dict[str, Any]) -> None:
        if "verdict" in payload:
            self.reviews[payload["subject"]] = payload["verdict"], payload.get("channel_error")

    def _journal_appended(self, key: str, payload: dict[str, Any]) -> None:
        if payload.get("refs"):
            self.journalled.update(payload["refs"])

    def _channel_called(self, key: str, payload: dict[str, Any]) -> None:
        session = payload["session"]
        self.calls[session] = self.calls.get(session, 0) + 1
        if not self.live:
            self.answers.setdefault((key, session, payload["request_sha"]), []).append(payload["response_sha"])


_HANDLERS = {
    name[1:]: member
    for name, member in vars(RunState).items()
    if name.startswith("_") and not name.startswith("__") and callable(member)
}
