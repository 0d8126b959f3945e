"""Values in a checkpoint that can't be read any more: which they are, and all else without them.

A class that is gone or was renamed, or one that pickles and does not unpickle, makes the whole
pickle unreadable that a value of it is in. Here each object that can't be made becomes an
`Unreadable`, and what has one in it is left out. Pure.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from typing import Any, ClassVar, NamedTuple

from fulmen.engine.state import pickling
from fulmen.engine.state.values.renamed_classes import found_class
from fulmen.errors import PASSED_ON, NotReadable, error_text, repr_of, text_of

KEY_CHARACTERS = 80


class Unreadable:
    """Stands for an object that could not be made.

    Attributes:
        reason: Why, in one line.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, *_args: Any) -> Unreadable:
        """An object of a class that is not there."""
        return self

    def __reduce__(self) -> Any:
        """Refuse: it is never written again."""
        raise pickle.PicklingError(self.reason)

    def __repr__(self) -> str:
        return "<unreadable>"

    def __setstate__(self, _state: Any) -> None:
        pass

    def __setitem__(self, _key: Any, _value: Any) -> None:
        pass

    def append(self, _value: Any) -> None:
        """Take an item of a list of a class that is not there."""

    extend = update = add = append


class _Reference:
    """A part of the engine that is written by its name, and made by the process that restores."""

    def __init__(self, made_by: Any, arguments: tuple[Any, ...]) -> None:
        self._reduced: tuple[Any, ...] = made_by, arguments

    def __setstate__(self, state: Any) -> None:
        self._reduced = *self._reduced[:2], state

    def __reduce__(self) -> Any:
        return self._reduced


class _MessageId(_Reference):
    """A message id that is one object in all pickles, by its token."""

    def __init__(self, made_by: Any, arguments: tuple[Any, ...]) -> None:
        super().__init__(made_by, arguments)
        self._token: int = arguments[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _MessageId) and other._token == self._token

    def __hash__(self) -> int:
        return hash(self._token)

    def __repr__(self) -> str:
        return "<unreadable>"  # nobody is told of one that can be read


_InPython: Any = pickle._Unpickler  # noqa: SLF001 (the one in C can't go on after an error)


class _Unpickler(_InPython):  # type: ignore[misc]
    """Puts an `Unreadable` where an object can't be made, and goes on."""

    dispatch: ClassVar[dict[int, Any]] = dict(_InPython.dispatch)

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self._places: dict[int, int] = {}  # the id() of an object -> where it is in the memo

    def find_class(self, module: str, name: str) -> Any:
        try:
            found = found_class(module, name) or super().find_class(module, name)
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (importing an author's module may raise anything)
            return Unreadable(error_text(e))
        if module in (pickling.__name__, "fulmen.secrets") and not isinstance(found, type):
            kind = _MessageId if found is pickling.message_id else _Reference
            return lambda *arguments: kind(found, arguments)
        return found

    def _made(self, make: Any, *arguments: Any) -> Any:
        try:
            return make(*arguments)
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (an author's class)
            return Unreadable(error_text(e))

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = self._made(self.stack[-1], *arguments)

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        kind = self.stack.pop()
        self.append(self._new(kind, arguments, {}))

    def load_newobj_ex(self) -> None:
        named = self.stack.pop()
        arguments = self.stack.pop()
        kind = self.stack.pop()
        self.append(self._new(kind, arguments, named))

    def _new(self, kind: Any, arguments: Any, named: Any) -> Any:
        if isinstance(kind, Unreadable):
            return kind
        return self._made(lambda: kind.__new__(kind, *arguments, **named))

    def load_memoize(self) -> None:
        self._places[id(self.stack[-1])] = len(self.memo)
        super().load_memoize()

    def _filled(self, fill: Callable[[], None]) -> None:
        """Put something into the object that is then on top of the stack."""
        try:
            fill()
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (an author's __setstate__, append or __setitem__)
            place = self._places.get(id(self.stack[-1]))
            self.stack[-1] = unreadable = Unreadable(error_text(e))
            if place is not None:  # else other references get what was made so far
                self.memo[place] = unreadable

    def load_build(self) -> None:
        self._filled(super().load_build)

    def load_append(self) -> None:
        self._filled(super().load_append)

    def load_appends(self) -> None:
        self._filled(super().load_appends)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._filled(partial(self._set, [key, value]))

    def load_setitems(self) -> None:
        self._filled(partial(self._set, self.pop_mark()))

    def _set(self, items: list[Any]) -> None:
        for i in range(0, len(items), 2):
            self.stack[-1][hashable(items[i])] = items[i + 1]

    def load_additems(self) -> None:
        self._filled(partial(self._add, [hashable(item) for item in self.pop_mark()]))

    def _add(self, items: list[Any]) -> None:
        elements = self.stack[-1]
        if isinstance(elements, set):
            elements.update(items)
        else:
            for item in items:
                elements.add(item)

    def load_frozenset(self) -> None:
        items = self.pop_mark()  # only then is `append` that of the stack below
        self.append(frozenset(map(hashable, items)))

    dispatch[pickle.MEMOIZE[0]] = load_memoize
    dispatch[pickle.APPEND[0]] = load_append
    dispatch[pickle.APPENDS[0]] = load_appends
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.ADDITEMS[0]] = load_additems
    dispatch[pickle.FROZENSET[0]] = load_frozenset
    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.NEWOBJ[0]] = load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = load_newobj_ex
    dispatch[pickle.BUILD[0]] = load_build


def hashable(value: Any) -> Any:
    """The value, or what stands for it, if it lacks what its hash is made of."""
    try:
        hash(value)
    except PASSED_ON:
        raise
    except BaseException as e:  # noqa: BLE001 (an author's __hash__)
        return Unreadable(error_text(e))
    return value


class Left(NamedTuple):
    """The readable part of a mapping.

    Attributes:
        items: What can be read, to be written again.
        removed: What can't: its key, as text, and why.
    """

    items: dict[Any, Any]
    removed: list[tuple[str, str]]


def loads(data: bytes) -> Any:
    """Unpickle, with an `Unreadable` where an object can't be made."""
    return _Unpickler(BytesIO(data)).load()


def left_of(
    items: Mapping[Any, Any], shown: Callable[[Any, Any], Any] = lambda key, _: key
) -> Left:
    """Divide a mapping into what can be written and read again, and the rest.

    Args:
        items: From `loads`.
        shown: What is said of a key and its value that can't: its `repr`.
    """
    left = Left({}, [])
    for key, value in items.items():
        reason = why_not((key, value))
        if reason is None:
            left.items[key] = value
        else:
            left.removed.append((repr_of(shown(key, value))[:KEY_CHARACTERS], reason))
    return left


def why_not(value: Any) -> str | None:
    """Why a value can't be written and read again; None: it can."""
    try:
        pickling.dumps(value, {})
    except (pickle.PicklingError, NotReadable) as e:  # an `Unreadable` says why
        return text_of(e)
    except PASSED_ON:
        raise
    except BaseException as e:  # noqa: BLE001 (an author's __reduce__)
        return error_text(e)
    return None
