"""Finds names in a class's `transient` that are not fields: they are misspelt."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fulmen.topology.problems import did_you_mean


def mistaken_transient(instance: Any) -> Iterator[tuple[str, str]]:
    """Mistakes in the `transient` of an instance or a class: (message, cure).

    Any method may set fields, long after `__init__`. So a name counts as a field if the instance
    has it, or if its class or a function beside that class mentions it.
    """
    names = instance.transient
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        message = f"transient is {names!r}, but must list names of fields"
        yield message, 'Write it as in transient = ["cache"].'
        return
    cls = instance if isinstance(instance, type) else type(instance)
    own = {*getattr(instance, "__dict__", ())} if instance is not cls else set()
    known = own | {*dir(cls)} | _annotated(cls)
    if set(names) <= known:
        return
    bases = [base for base in cls.__mro__ if not base.__module__.startswith("fulmen.api.")]
    in_class = _mentioned(bases)
    if set(names) <= known | in_class:
        return
    beside = _mentioned(sys.modules.get(base.__module__) for base in bases)
    for name in names:
        if name not in known | in_class | beside:
            fields = sorted(field for field in own | in_class if not field.startswith("__"))
            cure = did_you_mean(name, fields) or "Take it out, or set the field in __init__."
            yield f"transient names {name!r}, but no field of that name is ever set", cure


def _annotated(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}


def _mentioned(owners: Iterable[type | ModuleType | None]) -> set[str]:
    """Names of attributes, and texts that may be such names, in the code of some owners."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting: list[Any] = [owner for owner in owners if owner is not None]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CodeType):
            found.update(one.co_names)
            found.update(c for c in one.co_consts if isinstance(c, str) and c.isidentifier())
            waiting += [c for c in one.co_consts if isinstance(c, CodeType)]
        elif isinstance(one, ModuleType):
            waiting += [v for v in vars(one).values() if _is_of(v, one.__name__)]
        elif isinstance(one, type):
            waiting += vars(one).values()
        else:
            waiting += _parts(one)
    return found


def _is_of(value: Any, module: str) -> bool:
    """Whether a value is a function or a class that the module defines."""
    return isinstance(value, FunctionType | type) and value.__module__ == module


def _parts(value: Any) -> list[Any]:
    """The functions that something in a class is made of, and their code."""
    match value:
        case FunctionType():
            cells = [c.cell_contents for c in value.__closure__ or () if not _is_empty(c)]
            inner = [inspect.unwrap(value), *(c for c in cells if isinstance(c, FunctionType))]
            return [value.__code__, *inner]
        case staticmethod() | classmethod():
            return [value.__func__]
        case property():
            return [value.fget, value.fset, value.fdel]
        case cached_property():
            return [value.func]
    return []


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:  # its variable has not been assigned yet
        return True
