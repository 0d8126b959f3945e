"""Classes of the values that a task keeps: their fields, in the checkpoint and in the code.

A value is restored without its `__init__`. Where a class keeps values by their places, as a
NamedTuple and a frozen dataclass with slots do, a field that moves gets the value of another one.
"""

from __future__ import annotations

import dataclasses
import importlib
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fulmen.engine.state.pickling import Shape
from fulmen.engine.state.values.renamed_classes import loaded, new_name
from fulmen.errors import PASSED_ON, error_text

Names = tuple[str, ...]

_OWN = ("__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__")
"""Methods of a class that makes its old values itself."""


class ValueClasses:
    """The classes of one task's values.

    Attributes:
        shapes: Of what was written since it was restored.
        known: The fields of each class, as the checkpoint has them.
        others: The names of classes that declare none.
    """

    def __init__(self, known: Mapping[str, Names], others: Iterable[str] = ()) -> None:
        self.shapes: set[Shape] = set()
        self.known = {_new_name(name): fields for name, fields in known.items()}
        self.others = {_new_name(name) for name in others}
        self._looked_at: set[Shape] = set()

    def fields(self) -> Mapping[str, Names]:
        """The fields of all classes that have some, by the names of the classes."""
        for kind, *_ in self.shapes - self._looked_at:
            if kind.__module__.partition(".")[0] in ("builtins", "fulmen"):
                continue
            name = f"{kind.__module__}:{kind.__qualname__}"
            if names := fields_of_class(kind):
                self.known[name] = names
            else:
                self.others.add(name)
        self._looked_at |= self.shapes
        return self.known

    def missing(self) -> dict[str, str]:
        """The classes that can't be found, by `module.Class`, and why not."""
        found = {name.replace(":", "."): _why_not(name) for name in (*self.known, *self.others)}
        return {name: why for name, why in found.items() if why}

    def moved(self) -> str | None:
        """Say why a restore is refused: fields would get the values of others."""
        for name, before in self.known.items():
            cls, now = _found(name)
            if cls is None or now == before or not _is_by_place(cls):
                continue
            if any(f in now and now.index(f) != i for i, f in enumerate(before)):
                return (
                    f"the fields of class {name.replace(':', '.')} were {_listed(before)} when its"
                    f" values were written, and are {_listed(now)} now. Its values are kept by"
                    " place, so fields would get the values of others. Put new fields at the end,"
                    " with defaults, and leave the others where they are; or give the new class"
                    " another name"
                )
        return None

    def lacking(self) -> list[str]:
        """Warnings: fields that older values don't have, although their class declares them."""
        told = []
        for name, before in self.known.items():
            cls, now = _found(name)
            new = [f for f in now if f not in before]
            if cls is None or not new or _has_default(cls, new) or issubclass(cls, tuple):
                continue
            told.append(
                f"the fields of class {name.replace(':', '.')} were {_listed(before)} when its"
                f" values were written, and are {_listed(now)} now. Older values have no"
                f" {_listed(new)}: reading it raises AttributeError. Set it in a __setstate__ of"
                " the class"
            )
        return told


def _new_name(name: str) -> str:
    """The name of a class, with a colon behind its module, as it is now."""
    new = new_name(name.replace(":", "."))
    if new is None:
        return name
    cls = loaded(new)
    return f"{cls.__module__}:{cls.__qualname__}"


def fields_of_class(cls: type) -> Names:
    """The fields that a class declares; empty if it declares none."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if issubclass(cls, tuple):
        return tuple(getattr(cls, "_fields", ()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(cls, "model_fields", None)
    if isinstance(model, dict):  # pydantic
        return tuple(model)
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is not None:
        return tuple(attribute.name for attribute in attributes)
    slots = [vars(base).get("__slots__", ()) for base in reversed(cls.__mro__)]
    return tuple(name for some in slots for name in ([some] if isinstance(some, str) else some))


def _why_not(name: str) -> str:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except PASSED_ON:
        raise
    except BaseException as error:  # noqa: BLE001 (importing an author's module may raise anything)
        return error_text(error)
    return ""


def _found(name: str) -> tuple[type | None, Names]:
    """The class of that name as it is now, and its fields, if its values are restored as usual."""
    module, _, path = name.partition(":")
    try:
        cls: Any = importlib.import_module(module)
        for part in path.split("."):
            cls = getattr(cls, part)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (what needs it says so)
        return None, ()
    if not isinstance(cls, type) or _is_restored_by_itself(cls):
        return None, ()
    return cls, fields_of_class(cls)


def _is_restored_by_itself(cls: type) -> bool:
    """Whether an author has written how it is restored."""
    for base in cls.__mro__:
        for method in _OWN:
            own = vars(base).get(method)
            if own is not None and not _is_generated(base, method, own):
                return True
    return False


def _is_generated(base: type, method: str, own: Callable[..., Any]) -> bool:
    if base is object or base.__module__.partition(".")[0] in ("builtins", "pydantic", "typing"):
        return True
    if method == "__getnewargs__" and hasattr(base, "_fields"):
        return getattr(own, "__module__", None) == "collections" or "namedtuple" in own.__qualname__
    return getattr(own, "__module__", "") in ("dataclasses", "attr._make")


def _is_by_place(cls: type) -> bool:
    """Whether its values are written without the names of their fields."""
    if issubclass(cls, tuple):
        return True
    state = getattr(cls, "__setstate__", None)
    return dataclasses.is_dataclass(cls) and getattr(state, "__module__", "") == "dataclasses"


def _has_default(cls: type, names: Collection[str]) -> bool:
    """Whether reading these of an object that does not have them gives a default."""
    slots = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
    return all(name not in slots and hasattr(cls, name) for name in names)


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
