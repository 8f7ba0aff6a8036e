"""The order of names in published answers."""

from __future__ import annotations

import itertools
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sherpa.collation import collation_key

ASCII_ORDER = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$" + string.digits + string.ascii_lowercase


def in_order(*names: str) -> bool:
    return all(collation_key(a) < collation_key(b) for a, b in itertools.pairwise(names))


def test_printable_ascii_stands_in_the_published_order() -> None:
    assert len(ASCII_ORDER) == 95 - 26  # every printable character but the capitals
    assert in_order(*ASCII_ORDER)


@given(st.text(alphabet=string.printable[:95], max_size=6), st.text(alphabet=string.printable[:95], max_size=6))
def test_ascii_names_compare_by_letter_first_and_by_case_on_a_tie(a: str, b: str) -> None:
    def expected(name: str) -> tuple[list[int], list[bool]]:
        return [ASCII_ORDER.index(c) for c in name.lower()], [c.isupper() for c in name]

    assert (collation_key(a) < collation_key(b)) == (expected(a) < expected(b))


@given(st.lists(st.text(alphabet=string.ascii_lowercase + string.digits + ".-", max_size=5)))
def test_plain_names_stand_in_code_point_order(names: list[str]) -> None:
    assert sorted(names, key=collation_key) == sorted(names)


@pytest.mark.parametrize(
    "names",
    [
        ("a", "A", "b", "B"),
        ("ab", "aB", "Ab", "AB", "aba"),
        ("A", "ab"),
        ("task", "Task", "task2"),
        ("Zeta", "zeta2"),
    ],
)
def test_case_decides_only_between_names_that_are_otherwise_equal(names: tuple[str, ...]) -> None:
    assert in_order(*names)


@pytest.mark.parametrize("names", [("a1", "a10", "a2"), ("9", "a"), ("v-1", "v-10", "v-11", "v-2")])
def test_digits_are_characters_and_not_numbers(names: tuple[str, ...]) -> None:
    assert in_order(*names)


@pytest.mark.parametrize(
    "names",
    [("a b", "a_b", "a-b", "a:b", "a.b", "a$b", "a0b", "ab"), ("a", "a b"), ("a.z", "a0", "aa")],
)
def test_punctuation_counts_and_precedes_digits_and_letters(names: tuple[str, ...]) -> None:
    assert in_order(*names)


@pytest.mark.parametrize(
    "names",
    [
        ("e", "E", "é", "É", "f"),
        ("cafe", "café", "cafes"),
        ("resume", "résumé", "resumes"),
        ("a", "ä", "az", "b"),
        ("strasse", "straße", "strast"),
        ("n", "ñ", "o"),
        ("aé", "aÉ", "áe", "áE"),
    ],
)
def test_an_accent_weighs_less_than_any_letter_and_more_than_case(names: tuple[str, ...]) -> None:
    assert in_order(*names)


def test_both_spellings_of_an_accented_letter_stand_together() -> None:
    composed, apart = "caf\u00e9", "cafe\u0301"
    assert in_order("cafe", composed, "caff")
    assert in_order("cafe", apart, "caff")
    assert collation_key(composed)[:3] == collation_key(apart)[:3]


@pytest.mark.parametrize("letter", ["я", "ω", "中", "\U0001f600"])
def test_other_scripts_follow_the_ascii_letters(letter: str) -> None:
    assert in_order("z", "Z", letter)


def test_capitals_of_other_scripts_follow_their_small_letters() -> None:
    assert in_order("я", "Я", "яа")


@given(st.text(max_size=5), st.text(max_size=5))
def test_only_equal_texts_share_a_place(a: str, b: str) -> None:
    assert (collation_key(a) == collation_key(b)) == (a == b)


@pytest.mark.parametrize(
    ("a", "b"), [("e\u0301", "\u00e9"), ("a\x00", "a"), ("a\u0300\u0301", "\u00e0\u0301"), ("ß", "ss")]
)
def test_texts_with_equal_weights_are_still_told_apart(a: str, b: str) -> None:
    assert collation_key(a) != collation_key(b)
