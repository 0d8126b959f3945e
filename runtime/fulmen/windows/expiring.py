"""Keyed state whose keys are forgotten some time after they were written."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, MutableMapping
from datetime import datetime
from typing import Any, Literal

from fulmen.api.context import TopologyContext
from fulmen.api.times.event_time import TimeReader, milliseconds
from fulmen.errors import EventTimeError

TTL = "ttl"
"""Begins the keys of its timers."""


class ExpiringState(MutableMapping[Any, Any]):
    """`self.state` of a bolt with a time to live. Make it in `prepare`, and use it in its place.

    The bolt gives its timers to `expired`, at the beginning of its `on_timer`:

        def prepare(self, conf, context):
            self.seen = ExpiringState(self.state, context, "7d")

        def on_timer(self, key, at, collector):
            self.seen.expired(key)

    What is in `self.state` is what is in it: the keys and values as they were assigned.
    """

    def __init__(
        self,
        state: MutableMapping[Any, Any],
        context: TopologyContext,
        ttl: str,
        *,
        by: Literal["clock", "event"] = "clock",
        refresh: Literal["write", "access"] = "write",
    ) -> None:
        """Make the state.

        Args:
            state: `self.state` of the bolt.
            context: The context of `prepare`.
            ttl: How long a key is kept, such as `30m` or `7d`.
            by: `clock`: after so much of the batch clock, which stands still while the topology
                does not run. `event`: until the watermark is so much after the event time of `put`.
            refresh: `access`: reading a key keeps it as well. By the clock only.

        Raises:
            ValueError: `ttl` is no duration above 0, or `by` and `refresh` don't go together.
        """
        self._ttl = milliseconds(ttl)
        if self._ttl <= 0:
            raise ValueError(f"the ttl is {ttl!r}, but must be above 0")
        if by not in ("clock", "event") or refresh not in ("write", "access"):
            raise ValueError("by must be clock or event, and refresh write or access")
        if by == "event" and refresh == "access":
            raise ValueError("refresh='access' needs by='clock': a read has no event time")
        self._state, self._timers = state, context.timers
        self._is_by_event, self._on_access = by == "event", refresh == "access"

    def put(self, key: Hashable, value: Any, at: int | datetime | None = None) -> None:
        """Assign a value.

        Args:
            key: The key.
            value: The value, as in `self.state`.
            at: The event time of the write, in milliseconds since 1970, or a datetime. The latest
                time of a key's writes counts. None: by the clock.

        Raises:
            EventTimeError: `at` is missing, or not wanted.
        """
        if self._is_by_event:
            if at is None:
                raise EventTimeError("state that expires by event time: write put(key, value, at)")
            time = TimeReader("ms").read(at) + self._ttl
            self._timers.set((TTL, key), max(time, int(self._timers.get((TTL, key)) or time)))
        elif at is not None:
            raise EventTimeError("state that expires by the clock takes no event time")
        else:
            self._touch(key)
        self._state[key] = value

    def expired(self, timer: Any) -> bool:
        """Forget the key of a timer of `on_timer`. False: the timer is the bolt's own."""
        if not (isinstance(timer, tuple) and len(timer) == 2 and timer[0] == TTL):
            return False
        self._state.pop(timer[1], None)
        return True

    def _touch(self, key: Hashable) -> None:
        self._timers.set_after((TTL, key), self._ttl / 1000)

    def __getitem__(self, key: Any) -> Any:
        value = self._state[key]
        if self._on_access:
            self._touch(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        del self._state[key]
        self._timers.cancel((TTL, key))

    def __contains__(self, key: Any) -> bool:
        return key in self._state

    def __iter__(self) -> Iterator[Any]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)
