"""One instance of an author's class: made, restored, opened, written down and closed again.

The engine's tasks and the test harness use the same, so that an instance has the same life in both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from fulmen.api.components import Bolt, Component, Spout
from fulmen.api.components.returned import refuse_unrun
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.state.entries.disk_journals import restored_entries
from fulmen.engine.state.entries.keyed_state import take_state
from fulmen.engine.state.fields import Fields, record_of
from fulmen.engine.state.journals import FIELDS, STATE
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.pickling import IDS
from fulmen.engine.tasks.author.event_loop import completed

T = TypeVar("T")


class Guard(Protocol):
    """Calls what may run an author's code, and deals with what it raises."""

    def __call__(self, what: str, call: Callable[[], T], /) -> T:
        """Call it."""
        ...


def unguarded(_what: str, call: Callable[[], T], /) -> T:
    """A guard that lets everything through."""
    return call()


class AuthorInstance:
    """An instance and its durable state.

    Making one makes the instance and restores `self.state`. Call `open` next.

    Attributes:
        instance: The author's.
        state: Its `self.state`.
        fields: Its durable fields.
    """

    def __init__(
        self, make: Callable[[], Component], journals: Journals, guard: Guard = unguarded
    ) -> None:
        """Make it.

        Args:
            make: Makes the instance.
            journals: What the checkpoint has of it.
            guard: Calls all that may run the author's code.
        """
        self._journals = journals
        self._guard = guard
        self.instance = guard("making the instance", make)
        self.state = guard(
            "restoring self.state",
            lambda: restored_entries(journals, STATE, self.instance, CALLS.reached),
        )
        self.fields = Fields(self.instance)
        self.look_at_state(is_new=True)

    def open(
        self,
        injected: Mapping[str, Any],
        opening: Callable[[Callable[[], None]], None],
        *,
        is_copy: bool,
        ids: MessageIds | None = None,
    ) -> None:
        """Restore its fields, and have it opened: `open` of a spout, `prepare` of a bolt.

        Args:
            injected: What that method takes: "conf", "context" and "collector".
            opening: Is called with the call of that method, to make it.
            is_copy: It is a copy of an object in the topology, and its fields were set there.
            ids: A spout's message ids that are one object in its fields and elsewhere.
        """
        parts = {**injected, "state": self.state}
        if ids is not None:
            parts[IDS] = ids
        options = getattr(injected["context"], "options", None)
        if options is not None:
            parts["options"] = options
        self.fields = Fields(self.instance, parts, is_copy=is_copy)
        record = record_of(self._journals)
        self._journals = {}  # which may be large
        restored = None
        if record is not None:
            restored = self._guard("restoring its fields", lambda: self.fields.apply(record))
        opening(partial(self._call_open, **injected))
        self.look_at_state(is_new=True)
        self.fields.settle(restored)

    def begin_batch(self, tag: str) -> None:
        """A batch begins with the attempt of this tag: what was committed last is durable."""
        self._guard("writing self.state to disk", lambda: self.state.begin_batch(tag))

    def _call_open(self, conf: Mapping[str, Any], context: Any, collector: Any) -> None:
        instance: Any = self.instance
        if isinstance(self.instance, Spout):
            refuse_unrun(instance.open(conf, context, collector))
        elif isinstance(self.instance, Bolt):
            refuse_unrun(completed(instance.prepare(conf, context, collector), os.getpid()))
        else:
            refuse_unrun(completed(instance.prepare(conf, context), os.getpid()))

    def look_at_state(self, *, is_new: bool = False) -> None:
        """See that `self.state` is still what goes into the checkpoint.

        Args:
            is_new: `__init__`, `open` or `prepare` were just called.

        Raises:
            StateError: It was assigned.
        """
        look = partial(take_state, self.instance, self.state, is_new)
        self._guard("looking at self.state", look)

    def updates(self, number: int, calls: int = 0) -> dict[str, Update]:
        """The records for commit `number`, by journal; empty if nothing changed.

        Args:
            number: The number of the commit.
            calls: How often the author's code was called since the last one.
        """
        records: dict[str, Update] = {}
        fields = self._guard("pickling its fields", self.fields.record)
        if fields is not None:
            records[FIELDS] = fields, number
        self.look_at_state()
        records |= self._guard("pickling self.state", lambda: self.state.updates(number, calls))
        return records

    def write_down(self, journals: dict[str, list[bytes]], number: int) -> dict[str, Update]:
        """Bring journals up to date, as commit `number` does with those of a checkpoint.

        Returns:
            What the commit had to write.
        """
        updates = self.updates(number)
        for journal, (data, keep_from) in updates.items():
            if keep_from == number:
                journals.pop(journal, None)
            if data is not None:
                journals.setdefault(journal, []).append(data)
        return updates

    def take_warnings(self) -> list[str]:
        """Take the warnings about its fields and its state; each warning is given once."""
        warnings, self.fields.warnings = self.fields.warnings, []
        return warnings + self.state.take_warnings()

    def close(self) -> None:
        """Have it let go of what it holds: `close` of a spout, `cleanup` of a bolt."""
        instance: Any = self.instance
        end = instance.close if isinstance(instance, Spout) else instance.cleanup
        try:
            refuse_unrun(completed(end(), os.getpid()))
        finally:
            self.state.close()
