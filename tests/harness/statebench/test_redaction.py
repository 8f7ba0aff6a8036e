"""Values of customers are masked wherever they stand, and a scanner of its own says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.statebench.redaction import Redactor
from harness.statebench.trajectories import Call, Trajectory, read_trajectories


def run(*results: Any, arguments: dict[str, Any] | None = None) -> Trajectory:
    calls = tuple(Call("get", arguments or {}, result, 0, False) for result in results)
    return Trajectory("d", 0, "", ("hello",), (), calls)


CUSTOMER = {"customer_id": "cust_004", "name": "Dana Kim", "email": "dana@example.com", "membership_tier": "gold"}
ORDER = {
    "order_id": "ORD-7512",
    "tracking_number": "TRK06303247",
    "discount_code": "SAVE10",
    "gift_sender": "Rob",
    "items": [{"product_id": "PROD-1", "name": "TechPhone Pro 16", "variant_id": "large_2_blue"}],
}


@pytest.fixture
def redactor() -> Redactor:
    return Redactor().collect([run(CUSTOMER, ORDER, arguments={"flight_id": "B6202"})])


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Order ORD-7512 of cust_004", "Order [id] of [id]"),
        ("parcel TRK06303247, code save10!", "parcel [id], code [code]!"),
        ("Dear Dana Kim, Dana, or Ms. Kim", "Dear [name], [name], or Ms. [name]"),
        ("from Rob, not from Robert", "from [name], not from Robert"),
        ("write to dana@example.com or x.y@mail.example.org", "write to [mail] or [mail]"),
        ("on 2026-07-02T10:00:00 or July 4th, 2026 or 7/4", "on [date] or [date] or [date]"),
        ("flight B6202 or UA100", "flight [id] or [id]"),
        ("refund $999 or $1,250.50", "refund [amount] or [amount]"),
        ("an ORD-0000 nobody has", "an [id] nobody has"),
        ("The TechPhone Pro 16 with USB and RAM is NOT out", "The TechPhone Pro 16 with USB and RAM is NOT out"),
        ("large_2_blue is a variant", "large_2_blue is a variant"),
    ],
)
def test_masking(redactor: Redactor, text: str, masked: str) -> None:
    assert redactor.redact(text) == masked
    assert redactor.redact(masked) == masked
    assert redactor.leaks(masked) == []


def test_the_scanner_finds_what_was_left(redactor: Redactor) -> None:
    text = "Dana (cust_004, dana@example.com) used SAVE10 on 2026-07-02; she is KIMBERLY's friend"
    assert redactor.leaks(text) == [
        ("date", "2026-07-02"),
        ("id", "cust_004"),
        ("mail", "dana@example.com"),
        ("person", "Dana"),
        ("promo", "SAVE10"),
    ]


def test_texts_of_the_training_runs_hold_nothing_after_masking(data: Path) -> None:
    runs = list(read_trajectories(data / "statebench-train"))
    redactor = Redactor().collect(runs)
    sorts = set(redactor.values.values())
    assert {"id", "promo", "person", "mail"} <= sorts
    raw = leaked = 0
    for each in runs:
        text = "\n".join([each.system, *each.user, *each.answers])
        raw += bool(redactor.leaks(text))
        leaked += len(redactor.leaks(redactor.redact(text)))
    assert raw > 250
    assert leaked == 0
