"""What a source has emitted at once is a block: one entry of its state until all of it is acked.

An entry for each message would cost several times what the message itself does. A message that
fails gets an entry of its own, so that it does not hold up its block.

After a restore, a block of which a part was acked knows all of its messages again, the acked ones
among them, until it ends: the checkpoint has how many wait, and not which.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import MutableMapping, Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID  # noqa: TID251 (a type of values; none is made)

_MISSING = object()


class _Pickler(pickle.Pickler):
    """Writes what rows of databases have in half of the time that its own way takes."""

    dispatch_table = {  # noqa: RUF012 (a table of the base)
        UUID: lambda one: (UUID, (None, None, None, None, one.int)),
        Decimal: lambda one: (Decimal, (str(one),)),
    }


def kept_bytes(value: Any) -> bytes:
    """What is kept of a block, for `pickle.loads`. The state's own pickler is much slower."""
    file = BytesIO()
    _Pickler(file, 5).dump(value)
    return file.getvalue()


class EmittedBlocks:
    """The messages of one task that wait for their acks, by their ids, which are text."""

    def __init__(self, state: MutableMapping[Any, Any], left: dict[int, int]) -> None:
        """Go on with what the checkpoint has.

        Args:
            state: Of the source. An entry is a block, by its number, or a message, by its id.
            left: A durable field of the source: how many messages of each block wait.
        """
        self._state, self._left = state, left
        self._block_of: dict[str, int] = {}
        self._acked_in: set[int] = set()
        self._loaded: tuple[int, dict[str, Any]] = 0, {}
        for block, number in left.items():
            ids, _ = pickle.loads(state[block])
            self._block_of.update((i, block) for i in ids if i not in state)  # some wait alone
            if number < len(ids):
                self._acked_in.add(block)

    def __contains__(self, msg_id: str) -> bool:
        """Whether a message waits."""
        return msg_id in self._block_of or msg_id in self._state

    def __getitem__(self, msg_id: str) -> Any:
        """What is kept of a message that has failed."""
        return self._state[msg_id]

    def ids(self) -> list[str]:
        """Of all that waits."""
        alone = (key for key in self._state if type(key) is str)
        return [*self._block_of, *alone]

    def add(self, ids: Sequence[str], kept: Sequence[Any] | None = None) -> None:
        """Have messages wait.

        Args:
            ids: Theirs. None waits already.
            kept: What is kept of each. None: nothing is needed.
        """
        block = next(reversed(self._left), 0) + 1
        self._state[block] = kept_bytes((ids, kept))
        self._left[block] = len(ids)
        self._block_of.update(dict.fromkeys(ids, block))

    def end(self, ids: Sequence[str]) -> Sequence[str]:
        """Forget messages. Returns those that have waited."""
        take = self._block_of.pop
        blocks = [take(msg_id, 0) for msg_id in ids]  # 0: none
        for block, number in Counter(blocks).items():
            if block:
                self._ended(block, number)
        if 0 not in blocks:
            return ids
        pairs = zip(ids, blocks, strict=True)
        alone = self._state.pop
        return [i for i, block in pairs if block or alone(i, _MISSING) is not _MISSING]

    def fail(self, msg_id: str) -> bool:
        """Have a message wait by itself. Returns whether it waits at all."""
        block = self._block_of.pop(msg_id, 0)
        if block:
            if self._loaded[0] != block:
                ids, kept = pickle.loads(self._state[block])
                self._loaded = (
                    block,
                    dict.fromkeys(ids) if kept is None else dict(zip(ids, kept, strict=True)),
                )
            self._state[msg_id] = self._loaded[1][msg_id]
            self._ended(block, 1)
        return msg_id in self._state

    def _ended(self, block: int, number: int) -> None:
        """So many messages of a block need it no more."""
        self._left[block] -= number
        if self._left[block]:
            return
        if block in self._acked_in:
            self._acked_in.discard(block)
            ids, _ = pickle.loads(self._state[block])
            for msg_id in ids:
                self._block_of.pop(msg_id, None)
        if self._loaded[0] == block:
            self._loaded = 0, {}
        del self._left[block], self._state[block]
