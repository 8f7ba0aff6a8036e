"""Nothing of a customer leaves the build: values are collected from what tools took and gave, and masked in every text.

Rules about how ids look are not enough, and rules that are wide enough also eat words. So the values themselves are
collected: what stands under the name of an id, a date, a promotion or a person anywhere in the runs. Forms (mail
addresses, dates, flight numbers, prefixed ids) catch what only a text mentions. The scanner is written apart from the
masking, and a build fails if it finds anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.statebench.trajectories import Trajectory

Sort = Literal["id", "date", "promo", "person", "mail", "amount"]
MASKS: dict[Sort, str] = {
    "id": "[id]",
    "date": "[date]",
    "promo": "[code]",
    "person": "[name]",
    "mail": "[mail]",
    "amount": "[amount]",
}
_ID_KEYS = re.compile(r"(?:^|_)(?:id|ids|number|tracking)$")
_PROMO_KEYS = frozenset({"promo_code", "discount_code", "coupon", "coupon_code", "code"})
_PERSON_KEYS = frozenset(
    {"gift_sender", "sender_name", "recipient", "recipient_name", "passenger_name", "customer_name"}
)
_PERSON_HINTS = frozenset({"email", "phone", "membership_tier", "loyalty_tier", "account_created"})
_WORDS_OF_IDS = frozenset({"variant_id"})
"""Ids that are words (``large_blue``): they name a property, not a thing of somebody."""

_FORMS: tuple[tuple[Sort, re.Pattern[str]], ...] = (
    ("mail", re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")),
    ("date", re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?")),
    (
        "date",
        re.compile(
            r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,2}"
            r"(?:st|nd|rd|th)?(?:,? \d{4})?\b"
        ),
    ),
    ("date", re.compile(r"\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b")),
    ("id", re.compile(r"\b[A-Z]{2,5}-[A-Za-z]*[_-]?[A-Z0-9_-]*\d[A-Z0-9_-]*\b")),
    ("id", re.compile(r"\b(?:user|cust|shop)_\d+\b")),
    ("id", re.compile(r"\b(?:[A-Z]{2}|[A-Z]\d|\d[A-Z])\d{3,4}\b")),
    ("amount", re.compile(r"\$\s?\d[\d,]*(?:\.\d+)?")),
)
_EDGE = r"[A-Za-z0-9_]"


@dataclass
class Redactor:
    """Values to mask, by sort; filled with `collect`.

    Attributes
    ----------
    values : dict
        Value to its sort.
    """

    values: dict[str, Sort] = field(default_factory=dict)
    _known: tuple[re.Pattern[str], dict[str, Sort]] | None = None

    def collect(self, runs: Iterable[Trajectory]) -> Redactor:
        """Take in every value of the runs; returns self."""
        for run in runs:
            for call in run.calls:
                for value, sort in _sensitive(call.arguments):
                    self._add(value, sort)
                for value, sort in _sensitive(call.result):
                    self._add(value, sort)
        self._known = None
        return self

    def _add(self, value: str, sort: Sort) -> None:
        value = value.strip()
        if len(value) < 3:
            return
        self.values.setdefault(value, sort)
        if sort == "person":
            for part in value.split():
                if len(part) > 2 and part[0].isupper():
                    self.values.setdefault(part, "person")

    def redact(self, text: str, *, amounts: bool = True) -> str:
        """The text with every value and every form masked. What is masked stays masked: doing it twice adds nothing.

        Parameters
        ----------
        amounts : bool
            Whether sums of money are masked too; those of a policy are facts.
        """
        for sort, form in _FORMS:
            if amounts or sort != "amount":
                text = form.sub(MASKS[sort], text)
        if not self.values:
            return text
        if self._known is None:
            # Longer values first, so that none hides a part of another.
            ordered = sorted(self.values, key=lambda v: (-len(v), v))
            joined = "|".join(re.escape(value) for value in ordered)
            pattern = re.compile(rf"(?<!{_EDGE})(?:{joined})(?!{_EDGE})", re.IGNORECASE)
            self._known = pattern, {value.lower(): sort for value, sort in self.values.items()}
        pattern, sorts = self._known
        return pattern.sub(lambda found: MASKS[sorts[found[0].lower()]], text)

    def leaks(self, text: str) -> list[tuple[Sort, str]]:
        """Every value and form that stands in a text, sorted; amounts are no leak.

        Written without the pattern of `redact`: values are looked for one by one.
        """
        found: set[tuple[Sort, str]] = set()
        for sort, form in _FORMS:
            if sort != "amount":
                found |= {(sort, match[0]) for match in form.finditer(text)}
        lower = text.lower()
        for value, sort in self.values.items():
            at = lower.find(value.lower())
            while at >= 0:
                before, behind = lower[at - 1 : at] if at else "", lower[at + len(value) : at + len(value) + 1]
                if not re.fullmatch(_EDGE, before or " ") and not re.fullmatch(_EDGE, behind or " "):
                    found.add((sort, value))
                    break
                at = lower.find(value.lower(), at + 1)
        return sorted(found)


def _sensitive(value: Any, key: str = "") -> Iterator[tuple[str, Sort]]:
    """Values that point at a person or a thing of one, with their sort."""
    if isinstance(value, dict):
        person = bool(_PERSON_HINTS & value.keys())
        for name, item in value.items():
            if person and name == "name" and isinstance(item, str):
                yield item, "person"
            else:
                yield from _sensitive(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _sensitive(item, key)
    elif isinstance(value, str) and value:
        if key in _PERSON_KEYS:
            yield value, "person"
        elif key in _PROMO_KEYS:
            yield value, "promo"
        elif key == "email":
            yield value, "mail"
        elif _ID_KEYS.search(key) and key not in _WORDS_OF_IDS and any(c.isdigit() for c in value):
            yield value, "id"
