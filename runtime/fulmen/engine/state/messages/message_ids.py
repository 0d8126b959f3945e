"""Message ids of one spout task that are equal to themselves alone.

A spout may give objects of its own as message ids, and look them up in its fields when `ack` or
`fail` is called. What is pending and what is in the fields are pickled apart, and at other times.
So such an object has a token while its message has not ended: all pickles have it, and what they
restore is one object. Its attributes are those of the last one, which is that of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from fulmen.api.keys import NAN_CURE, NEVER_NAN, NOT_EQUAL_TO_ITSELF, first_with_nan
from fulmen.engine.state.messages.id_runs import kinds_of
from fulmen.engine.state.values.copies import BY_VALUE, EqualCopies
from fulmen.errors import StateError, repr_of


class MessageIds:
    """The objects, and their tokens.

    Attributes:
        tokens: The token of an object, by its `id()`.
    """

    def __init__(self) -> None:
        self.tokens: dict[int, int] = {}
        self._kept: dict[int, list[Any]] = {}  # its id() -> the object, and how often it is pending
        self._restored: dict[int, Any] = {}
        self._copies = EqualCopies()
        self._alone: set[type] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, first: int, msg_ids: Sequence[Any], state: Container[Any] = ()) -> None:
        """Add pending messages, with consecutive sequence numbers from `first`.

        Args:
            first: The first of the numbers.
            msg_ids: The message ids.
            state: The keys of the spout's `self.state`.

        Raises:
            StateError: What is restored of one of them would not be equal to it.
        """
        kinds = kinds_of(msg_ids)
        if not kinds <= NEVER_NAN and (lost := first_with_nan(msg_ids)) is not None:
            raise StateError(f"message id {repr_of(lost)} {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}")
        kinds -= BY_VALUE
        for kind in kinds - self._alone:
            self._look(next(msg_id for msg_id in msg_ids if type(msg_id) is kind))
        if kinds.isdisjoint(self._alone):
            return
        for sequence, msg_id in enumerate(msg_ids, first):
            if type(msg_id) in self._alone:
                if msg_id in state:
                    raise StateError(
                        f"message id {repr_of(msg_id)} is equal to itself alone, and is a key of"
                        " self.state: after a restart it would not be found there. Use plain values"
                        " as the key and as the id, or a field of the spout in place of self.state"
                    )
                self._keep(msg_id, sequence)[1] += 1

    def ended(self, msg_ids: Iterable[Any], *, is_failed: bool = False) -> None:
        """Note messages that have ended. Those that have failed may come again."""
        if not self._kept:
            return
        for msg_id in msg_ids:
            kept = self._kept.get(id(msg_id))
            if kept is not None:
                kept[1] -= 1
                if kept[1] <= 0 and not is_failed:
                    self._forget(msg_id)

    def keep_only(self, failed: Iterable[Any]) -> None:
        """Forget what is neither pending nor among those that have failed."""
        needed = {id(msg_id) for msg_id in failed}
        for msg_id, pending in list(self._kept.values()):
            if pending <= 0 and id(msg_id) not in needed:
                self._forget(msg_id)

    def one(self, token: int, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The object with a token, while it is restored. The first pickle with it makes it."""
        if token not in self._restored:
            self._restored[token] = make(*arguments)
        return self._restored[token]

    def restored(self, pending: Iterable[Any], failed: Iterable[Any]) -> None:
        """Count the restored pending and failed messages. The fields come next."""
        known = {id(msg_id): token for token, msg_id in self._restored.items()}
        for msg_id in pending:
            if id(msg_id) in known:
                self._keep(msg_id, known[id(msg_id)])[1] += 1
        for msg_id in failed:
            if id(msg_id) in known:
                self._keep(msg_id, known[id(msg_id)])

    def settle(self) -> None:
        """Drop the restored ids: the fields are restored, too."""
        self._restored = {}

    def _keep(self, msg_id: Any, token: int) -> list[Any]:
        self.tokens.setdefault(id(msg_id), token)
        return self._kept.setdefault(id(msg_id), [msg_id, 0])

    def _forget(self, msg_id: Any) -> None:
        del self._kept[id(msg_id)], self.tokens[id(msg_id)]

    def _look(self, msg_id: Any) -> None:
        """Refuse a message id whose copies are not equal to it."""
        if self._copies.has(msg_id):
            return
        if getattr(type(msg_id), "__eq__", None) is not object.__eq__:
            raise StateError(
                f"message id {repr_of(msg_id)} has parts that are equal to themselves alone: after"
                " a restart, `ack` and `fail` would get one that is not equal to it. Use plain"
                " values as the id, such as the key of what it stands for, or give the classes of"
                " its parts an __eq__ and a __hash__"
            )
        self._alone.add(type(msg_id))
