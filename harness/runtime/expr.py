"""The expression language of guards, conditions, predicates and templates.

The host's parser builds the tree, a whitelist decides which nodes may be in it, and a walker evaluates it. Nothing is
ever executed: no calls, no attributes of objects (``a.b`` looks a key up in a mapping), no code.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from harness.runtime.errors import ExpressionError

MAX_SOURCE, MAX_NODES, MAX_NESTING, MAX_DOTS = 1_000, 200, 50, 3
MAX_INTEGER = 2**63

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_TEMPLATE = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)


class Expression:
    """A compiled expression; it can be evaluated any number of times.

    Attributes
    ----------
    source : str
    names : frozenset of str
        Names it looks up in a scope.
    """

    __slots__ = ("_tree", "names", "source")

    def __init__(self, source: str, tree: ast.expr) -> None:
        self.source = source
        self._tree = tree
        self.names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """Value in a scope of JSON values.

        Raises
        ------
        ExpressionError
            For unknown names and keys, operands of the wrong kind, division by zero. The cause is chained.
        """
        try:
            return _value(self._tree, scope)
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            reason = f"{error.args[0]!r} is unknown" if isinstance(error, KeyError) else str(error)
            raise ExpressionError(f"{self.source!r} cannot be evaluated: {reason}") from error


@lru_cache(maxsize=4096)
def compile_expression(source: str) -> Expression:
    """Parse and check an expression.

    Raises
    ------
    ExpressionError
        If it does not parse, is too large, or uses anything that is not allowed.
    """
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters, not {len(source)}")
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{source!r} is not an expression: {error}") from error
    for count, (node, depth) in enumerate(_walk(tree), 1):
        if count > MAX_NODES or depth > MAX_NESTING:
            raise ExpressionError(f"{source[:60]!r}… is too large: {MAX_NODES} parts nested {MAX_NESTING} deep at most")
        problem = _refused(node)
        if problem:
            raise ExpressionError(f"{source!r}: {problem}")
    return Expression(source, tree)


def _walk(root: ast.expr) -> Iterator[tuple[ast.AST, int]]:
    pending: list[tuple[ast.AST, int]] = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _refused(node: ast.AST) -> str | None:
    """Why a part may not be in an expression, or None."""
    problem: str | None = None
    match node:
        case ast.Constant(value=value):
            if not (value is None or isinstance(value, str | int | float)):
                problem = f"a literal {type(value).__name__} is not allowed"
            elif isinstance(value, int) and abs(value) > MAX_INTEGER:
                problem = "the number is too large"
        case ast.Name(id=name):
            if name.startswith("_"):
                problem = f"the name {name} begins with an underscore"
        case ast.Attribute(attr=name):
            if name.startswith("_"):
                problem = f"the key {name} begins with an underscore"
            elif _dots(node) > MAX_DOTS:
                problem = f"more than {MAX_DOTS} dots in a row"
        case ast.Subscript(slice=index):
            if isinstance(index, ast.Slice | ast.Tuple):
                problem = "slices are not allowed"
        case ast.BinOp(op=op):
            if type(op) not in _ARITHMETIC:
                problem = f"the operator {type(op).__name__} is not allowed"
        case ast.UnaryOp(op=op):
            if not isinstance(op, ast.Not | ast.UAdd | ast.USub):
                problem = f"the operator {type(op).__name__} is not allowed"
        case ast.Compare(ops=ops):
            if any(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                problem = "is is not allowed"
        case ast.BoolOp() | ast.Tuple() | ast.List():
            pass
        case ast.operator() | ast.unaryop() | ast.cmpop() | ast.boolop() | ast.Load():
            pass
        case _:
            problem = f"{type(node).__name__} is not allowed"
    return problem


def _dots(node: ast.expr) -> int:
    count = 0
    while isinstance(node, ast.Attribute):
        count, node = count + 1, node.value
    return count


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return scope[name]
        case ast.Attribute(value=inner, attr=key):
            return _lookup(_value(inner, scope), key)
        case ast.Subscript(value=inner, slice=index):
            return _subscript(_value(inner, scope), _value(index, scope))
        case ast.List(elts=items):
            return [_value(item, scope) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item, scope) for item in items)
        case ast.BoolOp(op=op, values=values):
            return _logic(isinstance(op, ast.Or), values, scope)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, scope)
        case ast.UnaryOp(op=sign, operand=operand):
            number = _number(_value(operand, scope))
            return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_ARITHMETIC[type(op)](_number(_value(left, scope)), _number(_value(right, scope))))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            return _compare(_value(left, scope), ops, rest, scope)
        case _:
            raise TypeError(f"{type(node).__name__} is not allowed")


def _logic(either: bool, values: list[ast.expr], scope: Mapping[str, Any]) -> Any:
    """The operand that decides; later ones are not evaluated."""
    result: Any = None
    for operand in values:
        result = _value(operand, scope)
        if bool(result) is either:
            break
    return result


def _lookup(holder: Any, key: str) -> Any:
    if not isinstance(holder, Mapping):
        raise TypeError(f"{key} is looked up in {type(holder).__name__}, which is no mapping")
    return holder[key]


def _subscript(holder: Any, index: Any) -> Any:
    if isinstance(index, bool) or not isinstance(index, int | str):
        raise TypeError(f"an index is a number or a text, not {type(index).__name__}")
    if isinstance(index, str):
        return _lookup(holder, index)
    if isinstance(holder, Mapping):
        raise TypeError("a mapping is looked up by text")
    if not isinstance(holder, list | tuple | str):
        raise TypeError(f"{type(holder).__name__} has no members")
    return holder[index]


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"arithmetic needs numbers, not {type(value).__name__}")
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise OverflowError("the result is too large")
    return value


def _compare(left: Any, ops: list[ast.cmpop], rest: list[ast.expr], scope: Mapping[str, Any]) -> bool:
    for op, part in zip(ops, rest, strict=True):
        right = _value(part, scope)
        if not _holds(op, left, right):
            return False
        left = right
    return True


def _holds(op: ast.cmpop, left: Any, right: Any) -> bool:
    match op:
        case ast.Eq():
            return bool(left == right)
        case ast.NotEq():
            return bool(left != right)
        case ast.In() | ast.NotIn():
            if isinstance(right, str):
                if not isinstance(left, str):
                    raise TypeError(f"only a text can be in a text, not {type(left).__name__}")
            elif not isinstance(right, list | tuple | Mapping):
                raise TypeError(f"nothing is in {type(right).__name__}")
            return (left in right) is isinstance(op, ast.In)
        case _:
            if not (isinstance(left, str) and isinstance(right, str)):
                _number(left), _number(right)
            return _ORDER[type(op)](left, right)


# -- templates -------------------------------------------------------------------------------------------------


def template_source(value: object) -> str | None:
    """The expression inside a text that is wholly ``{{ … }}``, or None."""
    match = _TEMPLATE.fullmatch(value) if isinstance(value, str) else None
    return match[1].strip() if match else None


def template_sources(value: object) -> Iterator[str]:
    """All expressions in a nested value."""
    source = template_source(value)
    if source is not None:
        yield source
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from template_sources(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from template_sources(item)


def fill(value: Any, scope: Mapping[str, Any]) -> Any:
    """A value with its templates replaced by what they mean, at any depth; types are kept.

    Raises
    ------
    ExpressionError
        If a template cannot be compiled or evaluated.
    """
    source = template_source(value)
    if source is not None:
        return plain(compile_expression(source).evaluate(scope))
    if isinstance(value, Mapping):
        return {key: fill(item, scope) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fill(item, scope) for item in value]
    return value


def plain(value: Any) -> Any:
    """A value as JSON has it: mappings that load on demand become dictionaries, tuples lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
