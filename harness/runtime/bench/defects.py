"""Repositories with one known defect each: the grammar that seeds them.

A repository is ``pkg/mod.py`` with a target and fillers, and ``tests/test_mod.py`` with examples. The four classes are
spelt in several ways, so that finding one is not undoing a replacement of text.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLASSES = ("off_by_one", "inverted_comparison", "wrong_constant", "missing_guard")


@dataclass(frozen=True)
class Seeded:
    """A defect.

    Attributes
    ----------
    kind : str
        Its class.
    module, tests : str
        Sources.
    """

    kind: str
    module: str
    tests: str

    def write(self, repo: Path) -> None:
        """Make the repository."""
        (repo / "pkg").mkdir(parents=True)
        (repo / "tests").mkdir()
        (repo / "pkg" / "__init__.py").write_text("")
        (repo / "pkg" / "mod.py").write_text(self.module)
        (repo / "tests" / "test_mod.py").write_text(self.tests)


# (body with defect, correct function of n and k, arguments for k); {k} is a number of the seed.
_Spelling = tuple[str, Callable[[Any, int], Any], Callable[[int], list[Any]]]
_SPELLINGS: dict[str, tuple[_Spelling, ...]] = {
    "off_by_one": (
        (
            "    total = 0\n    for i in range(n):\n        total += i * {k}\n    return total\n",
            lambda n, k: sum(i * k for i in range(n + 1)),
            lambda _: [1, 2, 3, 5],
        ),
        (
            "    total = 0\n    i = 1\n    while i < n:\n        total += i + {k}\n        i += 1\n    return total\n",
            lambda n, k: sum(i + k for i in range(1, n + 1)),
            lambda _: [1, 2, 4, 6],
        ),
    ),
    "inverted_comparison": (
        (
            "    best = n[0]\n    for value in n:\n        if value < best:\n"
            "            best = value\n    return best + {k}\n",
            lambda n, k: max(n) + k,
            lambda _: [[1, 2], [3, 1, 9], [4, 7, 5, 7]],
        ),
        (
            "    kept = []\n    for value in n:\n        if not value > {k}:\n"
            "            kept.append(value)\n    return kept\n",
            lambda n, k: [value for value in n if not value < k],
            lambda k: [[k, 1, 99], [0, 70, 80], [k]],
        ),
    ),
    "wrong_constant": (
        ("    return n * {wrong} + 7\n", lambda n, k: n * k + 7, lambda _: [2, 3, 10, -4]),
        (
            "    if n > 50:\n        return n\n    return n + {wrong}\n",
            lambda n, k: n if n > 50 else n + k,
            lambda _: [1, 20, 51, 90],
        ),
    ),
    "missing_guard": (
        (
            "    return sum(n) // len(n) + {k}\n",
            lambda n, k: sum(n) // len(n) + k if n else 0,
            lambda _: [[], [2, 4], [9, 9, 9]],
        ),
        ("    return {k} // n\n", lambda n, k: k // n if n else 0, lambda _: [0, 1, 2, 7]),
    ),
}
_FILLERS: tuple[tuple[str, str, Callable[[Any, int], Any], list[Any]], ...] = (
    ("shout", "    return n.upper() + '!'\n", lambda n, _: n.upper() + "!", ["a", "bc"]),
    ("twice", "    return n + n\n", lambda n, _: n + n, [2, "x"]),
    ("ends", "    return [n[0], n[-1]]\n", lambda n, _: [n[0], n[-1]], [[1, 2, 3], "abc"]),
    ("positive", "    return n > 0\n", lambda n, _: n > 0, [1, -1, 0]),
)


def seed_defect(kind: str, seed: int) -> Seeded:
    """A repository with a defect of a class, the same for the same seed."""
    rng = random.Random(f"{kind}:{seed}")
    body, truth, arguments = rng.choice(_SPELLINGS[kind])
    k = rng.randint(12, 40)
    wrong = k + rng.choice((-9, -7, -5, 4, 6, 8))
    functions = [(f"target_{rng.randint(100, 999)}", body.format(k=k, wrong=wrong), truth, arguments(k))]
    for filler, text, right, shown in rng.sample(_FILLERS, 3):
        functions.append((f"{filler}_{rng.randint(10, 99)}", text, right, shown))
    rng.shuffle(functions)
    module = "\n\n".join(f"def {called}(n):\n{text}" for called, text, _, _ in functions)
    tests = "from pkg import mod\n"
    for called, _, right, given in functions:
        lines = [f"    assert mod.{called}({argument!r}) == {right(argument, k)!r}\n" for argument in given]
        tests += f"\n\ndef test_{called}():\n" + "".join(lines)
    return Seeded(kind, module, tests)
