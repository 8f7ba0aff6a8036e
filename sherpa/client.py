"""SherpaClient and AsyncSherpaClient: the SDK. The same calls, wherever the memory runs."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from sherpa.answers import WorkflowNext, WorkflowOutcomes, WorkflowRecall, WorkflowState
from sherpa.configuration import Transport, configure, find_file, of_environment, read_document
from sherpa.event import Event
from sherpa.queries import RecallMode
from sherpa.serve.documents import BatchAnswer

if TYPE_CHECKING:
    from sherpa.serve.backend import Backend

Mode = Literal["embedded", "stdio", "http"]
T = TypeVar("T")
_PER_IMPORT = 1_000


@dataclass(frozen=True)
class Request(Generic[T]):
    """One call: the operation, its parameters, and how its answer is read."""

    operation: str
    parameters: Mapping[str, Any]
    read: Callable[[Any], T]


def _as(kind: type[T]) -> Callable[[Any], T]:
    def read(value: Any) -> T:
        return msgspec.convert(value, kind)

    return read


def _plain(value: Any) -> dict[str, Any]:
    answer: dict[str, Any] = value
    return answer


def _event(event: Event | Mapping[str, Any], new_id: Callable[[], str]) -> dict[str, Any]:
    """An event with an id, so that it is stored once however often it is sent."""
    given = msgspec.to_builtins(event) if isinstance(event, Event) else dict(event)
    given.pop("seq", None)
    if given.get("eventId") is None:
        given["eventId"] = new_id()
    return given


class _Calls:
    """The requests behind the methods of both clients."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id

    def ingest(self, event: Event | Mapping[str, Any]) -> Request[Event]:
        return Request("ingest_event", _event(event, self._new_id), _as(Event))

    def ingest_batch(self, events: Iterable[Event | Mapping[str, Any]]) -> Request[BatchAnswer]:
        return Request("ingest_batch", {"events": [_event(e, self._new_id) for e in events]}, _as(BatchAnswer))

    def state(self, case_id: str, max_order: int | None) -> Request[WorkflowState]:
        order = {} if max_order is None else {"maxOrder": max_order}
        return Request("state", {"caseId": case_id, **order}, _as(WorkflowState))

    def next(self, case_id: str, limit: int) -> Request[WorkflowNext]:
        return Request("next", {"caseId": case_id, "limit": limit}, _as(WorkflowNext))

    def outcomes(self, case_id: str, limit: int) -> Request[WorkflowOutcomes]:
        return Request("outcomes", {"caseId": case_id, "limit": limit}, _as(WorkflowOutcomes))

    def recall(self, case_id: str, mode: RecallMode, limit: int) -> Request[WorkflowRecall]:
        return Request("recall", {"caseId": case_id, "mode": mode, "limit": limit}, _as(WorkflowRecall))

    def report(self, operation: str, **parameters: Any) -> Request[dict[str, Any]]:
        return Request(operation, parameters, _plain)

    def imports(self, path: Path) -> Iterable[Request[dict[str, Any]]]:
        """A snapshot in parts that fit through every door."""
        from sherpa.snapshot import read_snapshot

        events, exported_at = read_snapshot(path)
        for at in range(0, max(1, len(events)), _PER_IMPORT):
            part = [_event(event, self._new_id) for event in events[at : at + _PER_IMPORT]]
            yield Request("import", {"events": part, "exportedAt": exported_at}, _plain)


def _joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answers to the parts of an import as one: counts of the memory are those of the last."""
    return answers[-1] | {name: sum(a[name] for a in answers) for name in ("added", "skipped", "forgotten")}


class SherpaClient:
    """A memory, wherever it runs. May be used by several threads.

    Parameters
    ----------
    root : path
        Folder of the memory.
    mode : str, optional
        ``embedded`` (in this process), ``stdio`` (a child of it) or ``http`` (a daemon); by default as the
        configuration says, which says embedded by default.
    config : path, optional
        Configuration file; ``config.json`` or ``config.toml`` of the folder by default.
    transport : Transport, optional
        Instead of that of the configuration: command, address, time-out, whether the client owns the daemon.
    token : str, optional
        Of the daemon; by default that of ``SHERPA_TOKEN`` or of the file ``daemon.token`` in the folder.
    backend : Backend, optional
        Instead of all that.
    new_id : callable
        Fresh event ids.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root, SherpaClient(root) as client:
    ...     for case in ("monday", "tuesday", "today"):
    ...         _ = client.ingest({"caseId": case, "source": "ci", "type": "task.started"})
    ...         if case != "today":
    ...             _ = client.ingest({"caseId": case, "source": "ci", "type": "tests.run"})
    ...     client.workflow_next("today").candidates[0].event
    'tests.run'
    """

    def __init__(
        self,
        root: str | Path = ".sherpa",
        *,
        mode: Mode | None = None,
        config: str | Path | None = None,
        transport: Transport | None = None,
        token: str | None = None,
        backend: Backend | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._calls = _Calls(new_id)
        self._backend = backend or connect(
            Path(root), mode=mode, config=None if config is None else Path(config), transport=transport, token=token
        )

    def close(self) -> None:
        """Release the memory; a child or a daemon of this client ends."""
        self._backend.close()

    def __enter__(self) -> SherpaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, operation: str, **parameters: Any) -> Any:
        """Any operation by its name, with its parameters in camelCase; see ``GET /openapi.json``.

        Raises
        ------
        OperationError
        """
        return self._backend.call(operation, parameters)

    def _do(self, request: Request[T]) -> T:
        return request.read(self._backend.call(request.operation, request.parameters))

    def ingest(self, event: Event | Mapping[str, Any]) -> Event:
        """Store one event; durable when this returns."""
        return self._do(self._calls.ingest(event))

    def ingest_batch(self, events: Iterable[Event | Mapping[str, Any]]) -> BatchAnswer:
        """Store several events, all or none."""
        return self._do(self._calls.ingest_batch(events))

    def workflow_state(self, case_id: str, max_order: int | None = None) -> WorkflowState:
        """Where a case is."""
        return self._do(self._calls.state(case_id, max_order))

    def workflow_next(self, case_id: str, limit: int = 5) -> WorkflowNext:
        """What usually comes next."""
        return self._do(self._calls.next(case_id, limit))

    def workflow_outcomes(self, case_id: str, limit: int = 3) -> WorkflowOutcomes:
        """Which branches fail or stall."""
        return self._do(self._calls.outcomes(case_id, limit))

    def workflow_recall(self, case_id: str, mode: RecallMode = "successful", limit: int = 3) -> WorkflowRecall:
        """How similar cases went on."""
        return self._do(self._calls.recall(case_id, mode, limit))

    def status(self) -> dict[str, Any]:
        """Counts, freshness, configuration."""
        return self._do(self._calls.report("status"))

    def taxonomy_report(self, recent_days: int = 14, rare_support: int = 3, limit: int = 10) -> dict[str, Any]:
        """Event types and their drift."""
        return self._do(self._calls.report("taxonomy", recentDays=recent_days, rareSupport=rare_support, limit=limit))

    def analytics_report(self, limit: int = 10) -> dict[str, Any]:
        """Frequent, failing and stalling transitions."""
        return self._do(self._calls.report("analytics", limit=limit))

    def metrics(self) -> dict[str, Any]:
        """How the memory is used."""
        return self._do(self._calls.report("metrics"))

    def doctor(self) -> dict[str, Any]:
        """Every check of the memory."""
        return self._do(self._calls.report("doctor"))

    def rebuild(self) -> dict[str, Any]:
        """Derive the graph again; the status after it."""
        return self._do(self._calls.report("rebuild"))

    def export(self) -> dict[str, Any]:
        """Write a snapshot to the memory's folder export."""
        return self._do(self._calls.report("export"))

    def import_snapshot(self, path: str | Path) -> dict[str, Any]:
        """Take in a snapshot that lies on this side; what is there already is left out."""
        return _joined([self._do(request) for request in self._calls.imports(Path(path))])

    def gc(self) -> dict[str, Any]:
        """Remove what is no longer needed."""
        return self._do(self._calls.report("gc"))

    def forget(self, case_id: str) -> dict[str, Any]:
        """Remove a case for good."""
        return self._do(self._calls.report("forget", caseId=case_id))

    def advise(self, case_id: str, *, record: bool = False) -> dict[str, Any]:
        """What would be said on a case, or which gate says no."""
        return self._do(self._calls.report("advise", caseId=case_id, record=record))


class AsyncSherpaClient:
    """`SherpaClient` for asyncio: the same arguments and methods, to be awaited. Calls may overlap."""

    def __init__(self, root: str | Path = ".sherpa", **options: Any) -> None:
        self._root, self._options = root, options
        self._client: SherpaClient | None = None
        self._opening = asyncio.Lock()

    async def _opened(self) -> SherpaClient:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(SherpaClient, self._root, **self._options)
        return self._client

    async def close(self) -> None:
        """Release the memory."""
        client, self._client = self._client, None
        if client is not None:
            await asyncio.to_thread(client.close)

    async def __aenter__(self) -> AsyncSherpaClient:
        await self._opened()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, operation: str, **parameters: Any) -> Any:
        """See `SherpaClient.call`."""
        client = await self._opened()
        return await asyncio.to_thread(client.call, operation, **parameters)

    async def ingest(self, event: Event | Mapping[str, Any]) -> Event:
        """See `SherpaClient.ingest`."""
        return await asyncio.to_thread((await self._opened()).ingest, event)

    async def ingest_batch(self, events: Iterable[Event | Mapping[str, Any]]) -> BatchAnswer:
        """See `SherpaClient.ingest_batch`."""
        return await asyncio.to_thread((await self._opened()).ingest_batch, events)

    async def workflow_state(self, case_id: str, max_order: int | None = None) -> WorkflowState:
        """See `SherpaClient.workflow_state`."""
        return await asyncio.to_thread((await self._opened()).workflow_state, case_id, max_order)

    async def workflow_next(self, case_id: str, limit: int = 5) -> WorkflowNext:
        """See `SherpaClient.workflow_next`."""
        return await asyncio.to_thread((await self._opened()).workflow_next, case_id, limit)

    async def workflow_outcomes(self, case_id: str, limit: int = 3) -> WorkflowOutcomes:
        """See `SherpaClient.workflow_outcomes`."""
        return await asyncio.to_thread((await self._opened()).workflow_outcomes, case_id, limit)

    async def workflow_recall(self, case_id: str, mode: RecallMode = "successful", limit: int = 3) -> WorkflowRecall:
        """See `SherpaClient.workflow_recall`."""
        return await asyncio.to_thread((await self._opened()).workflow_recall, case_id, mode, limit)

    async def status(self) -> dict[str, Any]:
        """See `SherpaClient.status`."""
        return await asyncio.to_thread((await self._opened()).status)

    async def taxonomy_report(self, recent_days: int = 14, rare_support: int = 3, limit: int = 10) -> dict[str, Any]:
        """See `SherpaClient.taxonomy_report`."""
        return await asyncio.to_thread((await self._opened()).taxonomy_report, recent_days, rare_support, limit)

    async def analytics_report(self, limit: int = 10) -> dict[str, Any]:
        """See `SherpaClient.analytics_report`."""
        return await asyncio.to_thread((await self._opened()).analytics_report, limit)

    async def metrics(self) -> dict[str, Any]:
        """See `SherpaClient.metrics`."""
        return await asyncio.to_thread((await self._opened()).metrics)

    async def doctor(self) -> dict[str, Any]:
        """See `SherpaClient.doctor`."""
        return await asyncio.to_thread((await self._opened()).doctor)

    async def rebuild(self) -> dict[str, Any]:
        """See `SherpaClient.rebuild`."""
        return await asyncio.to_thread((await self._opened()).rebuild)

    async def export(self) -> dict[str, Any]:
        """See `SherpaClient.export`."""
        return await asyncio.to_thread((await self._opened()).export)

    async def import_snapshot(self, path: str | Path) -> dict[str, Any]:
        """See `SherpaClient.import_snapshot`."""
        return await asyncio.to_thread((await self._opened()).import_snapshot, path)

    async def gc(self) -> dict[str, Any]:
        """See `SherpaClient.gc`."""
        return await asyncio.to_thread((await self._opened()).gc)

    async def forget(self, case_id: str) -> dict[str, Any]:
        """See `SherpaClient.forget`."""
        return await asyncio.to_thread((await self._opened()).forget, case_id)

    async def advise(self, case_id: str, *, record: bool = False) -> dict[str, Any]:
        """See `SherpaClient.advise`."""
        client = await self._opened()
        return await asyncio.to_thread(lambda: client.advise(case_id, record=record))


def connect(
    root: Path,
    *,
    mode: Mode | None = None,
    config: Path | None = None,
    transport: Transport | None = None,
    token: str | None = None,
) -> Backend:
    """The backend that a client's arguments and the configuration name; see `SherpaClient`."""
    path = find_file(root, os.environ, config)
    documents = [{} if path is None else read_document(path), of_environment(os.environ)]
    chosen = transport or configure(*documents, where=str(path or "environment")).transport
    kind = mode or chosen.mode
    timeout = chosen.timeout_ms / 1000
    if kind == "embedded":
        from sherpa.serve.backend import EmbeddedBackend
        from sherpa.serve.service import Opening

        return EmbeddedBackend(Opening.of(root, *documents))
    command = [*_program(chosen), "--root", str(root), *(() if config is None else ("--config", str(config)))]
    if kind == "stdio":
        from sherpa.serve.child import ChildBackend

        return ChildBackend([*command, "serve", "--stdio"], timeout=timeout, environment=chosen.env)
    from sherpa.serve.managed import ManagedDaemon
    from sherpa.serve.remote import HttpBackend
    from sherpa.serve.tokens import FILE, VARIABLE, read_token

    def bearer() -> str:
        return token or os.environ.get(VARIABLE) or read_token(root / FILE)

    parts = urlsplit(chosen.base_url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    start = [*command, "serve", "--host", host, "--port", str(port), "--owned"]
    managed = ManagedDaemon(start, host, port, environment=chosen.env) if chosen.manage_process else None
    return HttpBackend(chosen.base_url, bearer, timeout=timeout, managed=managed)


def _program(transport: Transport) -> list[str]:
    """The program of a child. The usual name is run by this interpreter: it need not be on the path."""
    if transport.command == "sherpa" and not transport.args:
        return [sys.executable, "-m", "sherpa"]
    return [transport.command, *transport.args]
