"""What JSON does not hold is refused alike wherever the memory runs, and is never stored as something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sherpa import SherpaClient
from sherpa.configuration import Transport
from sherpa.errors import OperationError
from tests.contract.doors import free_port


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture(scope="module", params=["embedded", "stdio", "http"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SherpaClient]:
    root: Path = tmp_path_factory.mktemp(request.param)
    address = f"http://127.0.0.1:{free_port()}"
    transport = Transport(mode=request.param, base_url=address, manage_process=True, timeout_ms=10_000)
    with SherpaClient(root, transport=transport) as opened:
        yield opened


@pytest.mark.parametrize(
    "meta",
    [
        lambda: {"x": float("nan")},
        lambda: {"x": [1, {"y": float("inf")}]},
        lambda: {"x": None, "y": float("-inf")},
        lambda: {"x": "\ud800"},
        lambda: {"\udfff": 1},
        lambda: {"x": object()},
    ],
    ids=["nan", "inside", "beside null", "surrogate", "key", "object"],
)
def test_what_json_does_not_hold_is_refused(meta: Callable[[], Any], client: SherpaClient) -> None:
    with pytest.raises(OperationError) as raised:
        client.ingest({"caseId": "c", "source": "s", "type": "t", "meta": meta()})
    assert raised.value.code == "invalid_event"
    assert client.status()["events"] == 0


@pytest.mark.parametrize("depth", [600, 900, 960, 970, 980, 985, 990, 995, 1_000, 2_000])
def test_what_is_nested_too_deeply_is_refused_at_once(depth: int, client: SherpaClient) -> None:
    with pytest.raises(OperationError) as raised:
        client.ingest({"caseId": "c", "source": "s", "type": "t", "meta": {"x": nested(depth)}})
    assert raised.value.code in ("invalid_event", "invalid_request")
    assert client.status()["events"] == 0


def test_what_it_does_hold_comes_back_as_it_was(client: SherpaClient) -> None:
    meta = {"none": None, "deep": nested(300), "text": "null 🙂 \u2028", "large": 2**64, "small": 5e-324, "list": []}
    stored = client.ingest({"caseId": "kept", "source": "s", "type": "t", "meta": meta})
    assert stored.meta == meta
    client.forget("kept")
