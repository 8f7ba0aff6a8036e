"""Groups of options that several commands share: a dataclass field per option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


def grouped(command: Callable[..., R]) -> Callable[..., R]:
    """Let a command take dataclasses of options; their fields become options of the command.

    A parameter whose type is a dataclass is replaced in the signature by one parameter per field, and put together
    again when the command runs.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter.replace(annotation=kind))
            continue
        groups[parameter.name] = kind
        member_hints = get_type_hints(kind, include_extras=True)
        for member in fields(kind):
            default = inspect.Parameter.empty if member.default is MISSING else member.default
            parameters.append(
                inspect.Parameter(
                    member.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=member_hints[member.name],
                )
            )

    def run(**given: Any) -> R:
        for name, kind in groups.items():
            given[name] = kind(**{member.name: given.pop(member.name) for member in fields(kind)})
        return command(**given)

    flat = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in flat}
    vars(run)["__signature__"] = inspect.Signature(flat)
    return run
