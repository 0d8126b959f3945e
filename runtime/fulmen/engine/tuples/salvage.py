"""Pickles what is nested deeply, and reads a pickled column of which some values can't be read.

A column is pickled at once, which is the fast way, and `pickle.loads` of it raises as a whole. Then
it is read again by Python's own unpickler in Python. It is fifty times slower, and goes on after
what an author's class raises, with an `UnreadableValue` in the value's place. A value that has one
somewhere inside is unreadable as well.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from typing_extensions import override

from fulmen.errors import PASSED_ON, error_text

T = TypeVar("T")
DEEPER = 2_500
"""Pickle takes two of Python's levels for one of lists, of which JSON from outside has up to 1024.
What pickle has written is read without recursion."""
_one_at_a_time = threading.Lock()
Reasons = dict[int, str]
"""Why values can't be read, by their place in the column."""


def deeply(dump: Callable[[], T]) -> T:
    """Call `dump`, which pickles values that a message from outside may have.

    Raises:
        RecursionError: They are nested more deeply than messages are.
    """
    try:
        return dump()
    except RecursionError:
        with _one_at_a_time:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(limit + DEEPER)
            try:
                return dump()
            finally:
                sys.setrecursionlimit(limit)


class UnreadableValue(Exception):
    """Stands for a value that can't be unpickled. Nor can this: it is raised in its turn."""

    @override
    def __reduce__(self) -> Any:
        return _raise, self.args


def _raise(reason: str) -> None:
    raise UnreadableValue(reason)


def salvaged(column: bytes) -> tuple[list[Any], Reasons]:
    """The values of a column that `pickle.loads` can't read, and what is wrong with some."""
    unpickler = _Salvage(column)
    values = unpickler.load()
    reasons: Reasons = {}
    for i, value in enumerate(values):
        found = unpickler.unreadable_in(value)
        if found is not None:
            values[i], reasons[i] = found, str(found)
    return values, reasons


class _Finder(pickle.Pickler):
    """Looks at each object that a value is made of, as it would be pickled."""

    def __init__(self, broken: dict[int, UnreadableValue]) -> None:
        super().__init__(io.BytesIO(), 5)
        self._broken = broken

    def persistent_id(self, obj: Any) -> None:
        if type(obj) is UnreadableValue:
            raise obj
        if id(obj) in self._broken:  # it is referred to from within
            raise self._broken[id(obj)]


class _Salvage(pickle._Unpickler):  # noqa: SLF001 (the one in Python has no other name)
    """Unpickles, and goes on after an exception."""

    stack: list[Any]
    metastack: list[list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)  # noqa: SLF001

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._broken: dict[int, UnreadableValue] = {}
        self._kept: list[Any] = []  # so that no other object gets the id of a broken one
        self._has_failed = False

    def unreadable_in(self, value: Any) -> UnreadableValue | None:
        """The unreadable part of a value; None: all of it can be read."""
        try:
            _Finder(self._broken).dump(value)
        except UnreadableValue as found:
            return found
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever an author's class raises)
            return UnreadableValue(error_text(error))
        return None

    def _attempt(
        self, plain: Callable[[Any], None], taken: int, *, changes: bool, uses: bool
    ) -> None:
        """Carry out an instruction that may run an author's code.

        Args:
            plain: The instruction.
            taken: How many objects it takes from the stack; it leaves one.
            changes: Whether the one that it leaves is the first of them, changed.
            uses: Whether the author's code gets the others of them.
        """
        left = len(self.stack) - taken
        target = self.stack[left] if changes else None
        try:
            if uses and self._has_failed:  # it could hide what is missing
                found = self.unreadable_in(self.stack[-1:] if changes else self.stack[left:])
                if found is not None:
                    raise found
            plain(self)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever an author's class raises)
            self._failed(error, target)
            self.stack[left:] = [self._last]

    def _attempt_all(self, plain: Callable[[Any], None]) -> None:
        """Attempt an operation that takes all down to a mark, for the object below it."""
        target = self.metastack[-1][-1]
        try:
            plain(self)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever an author's class raises)
            self._failed(error, target)
            self.stack[-1] = self._last

    def _failed(self, error: BaseException, target: Any) -> None:
        self._has_failed = True
        last = error if isinstance(error, UnreadableValue) else UnreadableValue(error_text(error))
        self._last = UnreadableValue(*last.args)  # without its traceback
        if target is not None:  # which is made half
            self._broken[id(target)] = self._last
            self._kept.append(target)


def _singly(code: bytes, taken: int, *, changes: bool = False, uses: bool = True) -> None:
    plain = _Salvage.dispatch[code[0]]
    _Salvage.dispatch[code[0]] = lambda self: self._attempt(
        plain, taken, changes=changes, uses=uses
    )


def _to_the_mark(code: bytes) -> None:
    plain = _Salvage.dispatch[code[0]]
    _Salvage.dispatch[code[0]] = lambda self: self._attempt_all(plain)


_singly(pickle.REDUCE, 2)
_singly(pickle.NEWOBJ, 2)
_singly(pickle.NEWOBJ_EX, 3)
_singly(pickle.BUILD, 2, changes=True)
_singly(pickle.STACK_GLOBAL, 2)
_singly(pickle.APPEND, 2, changes=True, uses=False)
_singly(pickle.SETITEM, 3, changes=True, uses=False)
for _code in (pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS):
    _to_the_mark(_code)
