"""Compares what hooks told with what OpenClaw wrote: the same calls, in the same order, with the same outcomes?

The transcript is the measure. What the hooks missed can be added to the memory, under ids that make a second time do
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from harness.openclaw import json5
from harness.openclaw.manifest import ID
from sherpa.capture.builder import SOURCE, Builder, Found, ToolPhase, clean
from sherpa.capture.live import EVENT_ID
from sherpa.capture.recorder import Recorder
from sherpa.capture.scope import Session as Place
from sherpa.capture.spool import drain
from sherpa.configuration import Configuration, configure, engine_options, find_file, read_document
from sherpa.errors import SourceError
from sherpa.event import Event
from sherpa.memory import ProceduralMemory
from sherpa.sources.openclaw.files import state_dirs
from sherpa.sources.openclaw.sessions import Installation, Session
from sherpa.sources.openclaw.steps import Step

CONFIG_FILE = "openclaw-plugin.json"
_REPAIR = f"{EVENT_ID}repair:"
Key = tuple[str, str, int]
"""(id of the call or name of the tool, which part of the call, which occurrence of both)."""


class Written(NamedTuple):
    """One thing of a tool call as the transcript has it.

    Attributes
    ----------
    key : Key
    turn : int
        Calls of one turn of the agent run side by side; their order says nothing.
    event : dict
        The event that a hook would have made of it.
    instant : int
    """

    key: Key
    turn: int
    event: dict[str, Any]
    instant: int


@dataclass
class Comparison:
    """What was found of one session.

    Attributes
    ----------
    session : str
    equal : int
        Events that are the same on both sides.
    missing, extra : list of str
        Events that only the transcript has, and that only the hooks told.
    different : list of str
        Events with another outcome or another name.
    out_of_order : int
        Events that came after some of a later turn.
    exact : bool
        Whether both sides are the same event by event, also within each turn.
    repaired : int
        Events that were added.
    """

    session: str
    equal: int = 0
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    out_of_order: int = 0
    exact: bool = True
    repaired: int = 0

    @property
    def fits(self) -> bool:
        """Whether both sides agree."""
        return not (self.missing or self.extra or self.different or self.out_of_order)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        return {
            "session": self.session,
            "equal": self.equal,
            "missing": self.missing,
            "extra": self.extra,
            "different": self.different,
            "outOfOrder": self.out_of_order,
            "exact": self.exact,
            "repaired": self.repaired,
        }


@dataclass
class Reconciled:
    """What was found in all."""

    sessions: list[Comparison] = field(default_factory=list)
    not_captured: int = 0

    @property
    def fits(self) -> bool:
        """Whether everything agrees, after what was repaired."""
        return all(c.fits or (c.repaired == len(c.missing) and _only_missing(c)) for c in self.sessions)

    def to_json(self) -> dict[str, Any]:
        """As the command prints it."""
        names = ("missing", "extra", "different")
        totals = {name: sum(len(getattr(c, name)) for c in self.sessions) for name in names}
        return {
            "sessions": [c.to_json() for c in self.sessions],
            "totals": {
                "sessions": len(self.sessions),
                "notCaptured": self.not_captured,
                "equal": sum(c.equal for c in self.sessions),
                **totals,
                "outOfOrder": sum(c.out_of_order for c in self.sessions),
                "repaired": sum(c.repaired for c in self.sessions),
            },
            "fits": self.fits,
        }


def _only_missing(found: Comparison) -> bool:
    return not (found.extra or found.different or found.out_of_order)


def reconcile(
    state: Path | None = None, *, memory: Path | None = None, session: str | None = None, repair: bool = False
) -> Reconciled:
    """Compare all sessions of which hooks told anything.

    Parameters
    ----------
    state : Path, optional
        State directory of OpenClaw; that of the local installation by default.
    memory : Path, optional
        Folder of the memory; by default the one that the plugin's configuration names, else that of each agent.
    session : str, optional
        Compare this one alone, even if no hook told of it.
    repair : bool
        Add what the hooks missed.

    Raises
    ------
    SherpaError
        If the sessions or the memory cannot be read.
    """
    known = [state] if state is not None else state_dirs()
    if not known:
        raise SourceError("no OpenClaw installation is here; name its state directory with --state-dir")
    done = Reconciled()
    with Installation(known[0]) as installation:
        agents: dict[str, list[Session]] = defaultdict(list)
        for found in installation.sessions:
            if session is None or found.session == session:
                agents[found.agent].append(found)
        if session is not None and not agents:
            raise SourceError(f"no session {session!r} is known", file=known[0])
        for agent, sessions in agents.items():
            root = memory or _root(known[0], agent)
            if not root.is_dir():
                done.not_captured += len(sessions)
                continue
            _of_agent(root, sessions, done, repair=repair, named=session is not None)
    return done


def _of_agent(root: Path, sessions: list[Session], done: Reconciled, *, repair: bool, named: bool) -> None:
    configuration, overrides = _configuration(root)
    builder = Builder(configuration)
    with ProceduralMemory(root, overrides=overrides) as memory:
        recorder = Recorder(root, configuration)
        drain(root, recorder)
        recorder.queue.flush(memory.ingest_batch)
        told: dict[str, list[Event]] = defaultdict(list)
        for event in memory.ledger.read():
            if event.source == SOURCE and isinstance(event.meta.get("sessionId"), str) and _is_tool(event):
                told[event.meta["sessionId"]].append(event)
        for session in sessions:
            live = sorted(told.get(clean(session.session), []), key=lambda e: (e.instant, _seq(e)))
            if not live and not named:
                done.not_captured += 1
                continue
            comparison, lost = compare(builder, session, live)
            if repair and lost:
                appended = memory.ingest_batch(list(lost))
                comparison.repaired = len(appended.events)
            done.sessions.append(comparison)


def compare(builder: Builder, session: Session, live: list[Event]) -> tuple[Comparison, list[dict[str, Any]]]:
    """(what differs in a session, events that would fill what the hooks missed)."""
    found = Comparison(session.name)
    written = list(_written(builder, session))
    by_key = dict(zip(_keys(live), live, strict=True))
    lost: list[Written] = []
    for item in written:
        event = by_key.get(item.key)
        if event is None:
            found.missing.append(_name(item.key, item.event["type"]))
            lost.append(item)
        elif (event.type, event.outcome) != (item.event["type"], item.event["outcome"]):
            found.different.append(f"{_name(item.key, event.type)}, written {item.event['type']}")
        else:
            found.equal += 1
    turns = {item.key: item.turn for item in written}
    known = [key for key in by_key if key in turns]
    found.extra = [_name(key, event.type) for key, event in by_key.items() if key not in turns]
    latest = -1
    for key in known:
        found.out_of_order += turns[key] < latest
        latest = max(latest, turns[key])
    found.exact = not found.different and list(by_key) == [item.key for item in written]
    return found, list(_fill(session, written, lost, by_key))


def _written(builder: Builder, session: Session) -> Iterator[Written]:
    place = _place(session)
    occurrences: dict[tuple[str, str], int] = defaultdict(int)
    begun: dict[str, list[int]] = defaultdict(list)
    turn, row = -1, ""
    for step in session.steps():
        if step.tool is None or not builder.wants(step.tool.family, step.tool.name):
            continue
        part = _part_of(step)
        if part == "start" and step.row != row:
            turn, row = turn + 1, step.row
        call = clean(step.call_id) if step.call_id else step.tool.name
        number = occurrences[call, part]
        occurrences[call, part] += 1
        of = turn
        if part == "start":
            begun[call].append(turn)
        elif part == "end" and begun[call]:
            # It belongs to the turn of its call; a command in the background ends when it is told.
            of = begun[call].pop()
        event = _event(builder, session, place, step)
        yield Written((call, part, number), max(of, 0), event, step.instant)


def _part_of(step: Step) -> str:
    if step.phase == "started":
        return "start"
    if step.phase == "unresolved":
        return "unresolved"
    return "job" if "background" in step.labels else "end"


def _event(builder: Builder, session: Session, place: Place, step: Step) -> dict[str, Any]:
    tool = step.tool
    assert tool is not None
    extra = tuple(label for label in step.labels if not label.startswith(("tool:", "tool-family:")))
    event = builder.named_event(
        place,
        cast("ToolPhase", step.phase),
        tool.name,
        tool.family,
        labels=extra,
        meta={"toolCallId": step.call_id, "sessionId": session.session},
    )
    found = Found(event, builder.base_case(place), {k: float(v) for k, v in step.metrics.items()})
    return builder.document(place, found, f"{_REPAIR}{session.name}:{step.row}:{step.part}", step.instant)


def _keys(live: Iterable[Event]) -> list[Key]:
    occurrences: dict[tuple[str, str], int] = defaultdict(int)
    keys = []
    for event in live:
        call = str(event.meta.get("toolCallId") or _tool_of(event))
        part = _part_told(event)
        keys.append((call, part, occurrences[call, part]))
        occurrences[call, part] += 1
    return keys


def _part_told(event: Event) -> str:
    """A rule of the user may have renamed the type; then what was measured tells."""
    suffix = event.type.rpartition(".")[2]
    if "background" in event.labels:
        return "job"
    if suffix in ("started", "unresolved"):
        return "start" if suffix == "started" else suffix
    if suffix in ("succeeded", "failed", "running", "unknown"):
        return "end"
    return "end" if event.metrics.keys() & {"durationMs", "hasResult"} else "start"


def _fill(
    session: Session, written: list[Written], lost: list[Written], by_key: dict[Key, Event]
) -> Iterator[dict[str, Any]]:
    """Events for what is missing, in the case and between the times of those around them."""
    from sherpa.instants import format_instant

    gone = {item.key for item in lost}
    beside = [by_key.get(item.key) for item in written]
    case = next((event.case_id for event in beside if event is not None), None)
    before: int | None = None
    for at, item in enumerate(written):
        event = beside[at]
        if event is not None:
            case, before = event.case_id, event.instant
            continue
        if item.key not in gone:
            continue
        following = next((e.instant for e in beside[at + 1 :] if e is not None), None)
        instant = item.instant if before is None else max(item.instant, before)
        if following is not None and instant >= following:
            instant = following - 1 if before is None else (before + following) // 2
        before = instant
        case = case or item.event["caseId"]
        yield item.event | {"caseId": case, "ts": format_instant(instant)}


# -- where things lie --------------------------------------------------------------------------------------------------


def _root(state: Path, agent: str) -> Path:
    try:
        config = json5.loads((state / "openclaw.json").read_text("utf-8"))
        named = config["plugins"]["entries"][ID]["config"]["store"]["root"]
    except (OSError, ValueError, KeyError, TypeError):
        named = None
    return Path(named).expanduser() if isinstance(named, str) else state / "agents" / agent / "sherpa"


def _configuration(root: Path) -> tuple[Configuration, dict[str, Any]]:
    file = root / CONFIG_FILE
    path = file if file.is_file() else find_file(root, {})
    document = {} if path is None else read_document(path)
    return configure(document), engine_options(document)


def _place(session: Session) -> Place:
    return Place(session.about.key or f"agent:{session.agent}:explicit:{session.session}", session.agent)


def _is_tool(event: Event) -> bool:
    return any(label.startswith("tool:") for label in event.labels)


def _tool_of(event: Event) -> str:
    return next((label[5:] for label in event.labels if label.startswith("tool:")), "")


def _seq(event: Event) -> int:
    return event.seq if isinstance(event.seq, int) else 0


def _name(key: Key, kind: str) -> str:
    call, _, number = key
    return f"{kind} of {call}" + (f" (the {number + 1}.)" if number else "")
