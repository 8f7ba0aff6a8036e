"""The expression language. Acceptance checks 10 to 17."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.runtime.errors import ExpressionError
from harness.runtime.expr import compile_expression, fill

SCOPE: dict[str, Any] = {"a": {"b": {"c": {"d": 4, "k": [10, 20]}}}, "n": 7, "s": "text", "xs": [1, 2, 3], "t": True}


def value(source: str, scope: dict[str, Any] | None = None) -> Any:
    return compile_expression(source).evaluate(SCOPE if scope is None else scope)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("n == 7", True),
        ("n != 7", False),
        ("1 < n <= 7", True),
        ("1 < n < 7", False),
        ("n >= 8", False),
        ("2 in xs", True),
        ("2 not in xs", False),
        ("'ex' in s", True),
        ("'b' in a", True),
        ("n + 1 - 2 * 3", 2),
        ("n / 2", 3.5),
        ("n // 2", 3),
        ("n % 4", 3),
        ("-n + +1", -6),
        ("a.b.c.d", 4),
        ("a['b']['c']['k'][1]", 20),
        ("xs[-1]", 3),
        ("s[0]", "t"),
        ("[1, n]", [1, 7]),
        ("(1, n)", (1, 7)),
        ("not n", False),
        ("None", None),
        ("'a' < 'b'", True),
    ],
)
def test_010_values(source: str, expected: object) -> None:
    assert value(source) == expected


def test_010_a_compiled_expression_is_reusable() -> None:
    compiled = compile_expression("n + 1")
    assert [compiled.evaluate({"n": n}) for n in range(3)] == [1, 2, 3]
    assert compiled.names == {"n"}


@pytest.mark.parametrize(
    "source",
    [
        "f()",
        "(lambda: 1)",
        "[x for x in xs]",
        "{x for x in xs}",
        "f'{n}'",
        "a.__class__",
        "__import__",
        "_x",
        "2 ** 8",
        "1 << 2",
        "1 >> 2",
        "1 | 2",
        "1 & 2",
        "1 ^ 2",
        "~n",
        "1 if n else 2",
        "xs[0:1]",
        "xs[0, 1]",
        "{'a': 1}",
        "{1}",
        "n is None",
        "b'x'",
        "1j",
        "...",
        "(x := 1)",
        "*xs",
        "[*xs]",
        "",
        "a b",
        "x" * 1001,
        "(" * 300 + "1" + ")" * 300,
        "-" * 60 + "1",
        "+".join(["1"] * 150),
        "9" * 40,
        "'\0'" + "\0",
    ],
)
def test_011_refused_when_compiled(source: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(ExpressionError):
        compile_expression(source)
    assert time.perf_counter() - begin < 1


def test_012_and_stops_at_the_first_false_operand() -> None:
    assert value("'k' in d and d['k'] > 1", {"d": {}}) is False
    with pytest.raises(ExpressionError):
        value("'k' in d and d['k'] > 1", {"d": {"k": "text"}})
    with pytest.raises(ExpressionError):
        value("True and missing", {})


def test_013_or_gives_the_operand() -> None:
    assert value("x or 'default'", {"x": ""}) == "default"
    assert value("x or 'default'", {"x": "given"}) == "given"
    assert value("x and y", {"x": 0, "y": 1}) == 0


@pytest.mark.parametrize(
    "holder", [(n for n in ()), test_013_or_gives_the_operand, SimpleNamespace(key=1), [1], "text"]
)
def test_014_attributes_of_objects_do_not_exist(holder: object) -> None:
    for source in ("x.key", "x.gi_frame", "x.append", "x['key']"):
        with pytest.raises(ExpressionError):
            value(source, {"x": holder})


def test_015_chains_of_dots() -> None:
    assert value("a.b.c.d") == 4
    with pytest.raises(ExpressionError, match="dots"):
        compile_expression("a.b.c.d.e")
    assert value("((((a.b.c.d + 1) * 2) - a.b.c.d) + (a.b.c.d - (a.b.c.d + 1)))") == 5


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("n / 0", ZeroDivisionError),
        ("n // 0", ZeroDivisionError),
        ("n % 0", ZeroDivisionError),
        ("xs[9]", IndexError),
        ("xs[t]", TypeError),
        ("xs['a']", TypeError),
        ("a[0]", TypeError),
        ("n[0]", TypeError),
        ("s + s", TypeError),
        ("t + 1", TypeError),
        ("xs * 2", TypeError),
        ("-t", TypeError),
        ("s < 1", TypeError),
        ("xs < xs", TypeError),
        ("1 in 2", TypeError),
        ("1 in s", TypeError),
        ("nobody", KeyError),
        ("a.nothing", KeyError),
        ("9000000000000000000 * 9000000000000000000", OverflowError),
    ],
)
def test_016_errors_have_a_cause(source: str, cause: type[Exception]) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(source)
    assert isinstance(caught.value.__cause__, cause)
    assert not isinstance(caught.value, ValueError | TypeError | LookupError | ArithmeticError)


def test_017_templates_at_any_depth_keep_their_type() -> None:
    assert fill({"x": [{"y": "{{ xs }}"}, "{{ n }}", "no {{ n }}"], "z": 1}, SCOPE) == {
        "x": [{"y": [1, 2, 3]}, 7, "no {{ n }}"],
        "z": 1,
    }
    with pytest.raises(ExpressionError):
        fill({"x": ["{{ missing }}"]}, SCOPE)
