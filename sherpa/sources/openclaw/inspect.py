"""A look at an installation: which files there are, from which era, and how much of them is usable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sherpa.instants import NO_INSTANT, format_instant
from sherpa.sources.openclaw.index import UNKNOWN
from sherpa.sources.openclaw.lines import Losses
from sherpa.sources.openclaw.parts import Part
from sherpa.sources.openclaw.sessions import Installation, Session
from sherpa.sources.openclaw.steps import Counts

Watch = Callable[[int], None]


def inspect(installation: Installation, watch: Watch | None = None) -> dict[str, Any]:
    """Count what every file holds by itself, and what all of them hold together.

    Parameters
    ----------
    installation : Installation
        Open.
    watch : callable, optional
        Called with the number of bytes read since the last call.

    Returns
    -------
    dict
        ``files`` (each by itself, copies included), ``sessions`` (put together, nothing twice), ``skipped``,
        ``warnings`` and ``totals``.
    """
    files, interrupted = [], False
    sessions: list[dict[str, Any]] = []
    totals, losses = Counts(), Losses()
    evidence = 0
    try:
        # Where every part is a session of its own, one reading serves both tables.
        for session in installation.sessions:
            if len(session.parts) == 1:
                _read(session, watch)
                files.append(_file(session.parts[0], session))
            else:
                for part in session.parts:
                    files.append(_alone(installation, part, session, watch))
                _read(session, None)
            sessions.append(_session(session))
            totals.add(session.counts)
            losses.add(session.losses)
            evidence += session.tool_evidence
        used = {id(part) for session in installation.sessions for part in session.parts}
        files += [_alone(installation, p, None, watch) for p in installation.parts if id(p) not in used]
    except KeyboardInterrupt:
        interrupted = True
    files.sort(key=lambda f: str(f["path"]))
    return {
        "interrupted": interrupted,
        "files": files,
        "sessions": sessions,
        "skipped": [{"path": path, "reason": reason} for path, reason in installation.skipped],
        "warnings": installation.warnings,
        "totals": {
            "files": len(files),
            "sessions": len(sessions),
            "sessionsWithoutToolEvidence": len(sessions) - evidence,
            "eras": dict(sorted(Counter(f["era"] for f in files).items())),
            "kinds": dict(sorted(Counter(f["kind"] for f in files).items())),
            "skipped": installation.skip_summary(),
            "rowsLost": losses.rows_lost,
            "losses": _losses(losses),
            "counts": totals.to_json(),
        },
    }


def _read(session: Session, watch: Watch | None) -> None:
    for _ in session.steps(watch):
        pass


def _alone(installation: Installation, part: Part, session: Session | None, watch: Watch | None) -> dict[str, Any]:
    about = session.about if session is not None else UNKNOWN
    alone = Session(part.host, part.agent, part.session, [part], about, installation.taxonomy, installation.options)
    _read(alone, watch)
    return _file(part, alone)


def _file(part: Part, session: Session) -> dict[str, Any]:
    return {
        "path": part.shown,
        "kind": part.kind.value,
        "era": part.era,
        "version": session.version if isinstance(session.version, int | str) else None,
        "agent": part.agent,
        "sessionId": part.session,
        "begins": None if part.begins == NO_INSTANT else format_instant(part.begins),
        "header": part.headed,
        "counts": session.counts.to_json(),
        "losses": _losses(session.losses),
        "lossLines": dict(sorted(part.losses.places.items())),
    }


def _session(session: Session) -> dict[str, Any]:
    return {
        "host": session.host,
        "agent": session.agent,
        "sessionId": session.session,
        "kind": session.about.kind,
        "status": session.about.status,
        "parent": session.parent,
        "parts": [part.shown for part in session.parts],
        "toolEvidence": session.tool_evidence,
        "counts": session.counts.to_json(),
    }


def _losses(losses: Losses) -> dict[str, int]:
    return {kind: number for kind, number in sorted(losses.counts.items()) if number}
