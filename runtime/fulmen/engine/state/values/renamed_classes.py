"""Classes of values that have another name or place by now, and which classes a pickle names.

Values are pickled with the names of their classes. `stateClasses` of the topology says what has
become of some of them. Where a value names one of these, it is written anew as soon as it is read,
under the new name: `KeyedState` and `Fields` see to that by `met`.
"""

from __future__ import annotations

import pickle
import pickletools
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from typing import Any

from typing_extensions import override

from fulmen.topology.code.loading import load_named

_renamed: dict[str, str] = {}
_seen = threading.local()


def use_renamed(classes: Mapping[str, str]) -> None:
    """Have values that are read in this process from now on be of classes with other names.

    Args:
        classes: The name of a class, or of a module, as it was, and as it is. What is inside of it
            goes with it.
    """
    if _renamed != classes:
        _renamed.clear()
        _renamed.update(classes)
        new_name.cache_clear()
        loaded.cache_clear()


@cache
def new_name(name: str) -> str | None:
    """What has become of a class, by `module.Class`; None: it has its name still."""
    outer, inner = name, ""
    while outer:
        if outer in _renamed:
            return _renamed[outer] + inner
        outer, dot, last = outer.rpartition(".")
        inner = f"{dot}{last}{inner}"
    return None


@cache
def loaded(name: str) -> Any:
    """The class of that name. Raises CodeError if there is none."""
    return load_named(name)


def found_class(module: str, name: str) -> Any:
    """The class that has taken the place of another one; None: it has its name still.

    Raises:
        CodeError: There is no such class.
    """
    new = new_name(f"{module}.{name}")
    if new is None:
        return None
    _seen.count = met() + 1
    return loaded(new)


def met() -> int:
    """How many times this thread has read a name that is another one by now."""
    count: int = getattr(_seen, "count", 0)
    return count


class _Unpickler(pickle.Unpickler):
    @override
    def find_class(self, module: str, name: str) -> Any:
        found = found_class(module, name)
        return super().find_class(module, name) if found is None else found


def loads(data: bytes | memoryview) -> Any:
    """Read a value of the checkpoint. Raises what unpickling does."""
    return _Unpickler(BytesIO(data)).load() if _renamed else pickle.loads(data)


def are_any_renamed() -> bool:
    """Whether there are classes with other names."""
    return bool(_renamed)


def is_of_renamed(data: bytes) -> bool:
    """Whether something in a pickle is of a class that has had another name."""
    now = tuple(f"{new}." for new in _renamed.values())
    return any(f"{name}.".startswith(now) for name in classes_in(data))


def classes_in(data: bytes | memoryview) -> set[str]:
    """The names of all classes and functions that a pickle names. Nothing of it is loaded."""
    return set(_named(bytes(data)))


def _named(data: bytes) -> Iterator[str]:
    memo: dict[int, str | None] = {}
    texts: list[str | None] = [None, None]  # the last two that were put on the stack
    for opcode, argument, _ in pickletools.genops(data):
        what: Any = argument
        match opcode.name:
            case "GLOBAL" | "INST":
                yield what.replace(" ", ".")
            case "STACK_GLOBAL":
                yield f"{texts[-2]}.{texts[-1]}"
                texts.append(None)
            case "MEMOIZE":
                memo[len(memo)] = texts[-1]
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[int(what)] = texts[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                texts.append(memo.get(int(what)))
            case _:
                texts.append(what if isinstance(what, str) else None)
        del texts[:-2]
