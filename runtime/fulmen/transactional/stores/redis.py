"""Maps in Redis, by redis-py.

    NAME            hash: key -> value, for anybody to read
    NAME:txid       hash: key -> "txid:task:attempt": which task had the key last, and when
    NAME:previous   hash: key -> value before that; with the opaque rule alone
    NAME:tasks      hash: for each task "mark:0" -> "txid:attempt:branch", and with the opaque rule
                    "keys:0" -> which keys the last transaction has changed
    NAME:fulmen     hash: whose the map is

A commit phase reads all it needs at one moment, and combines. Then one script compares and writes,
and nothing comes between: the task's mark and the txid of each key must be what was read. If they
are not, another process was faster, and the phase begins again.

Redis is as durable as it is set up to be: docs/transactional-stores.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.columns import Kind
from fulmen.transactional.errors import StoreUnavailable
from fulmen.transactional.maps import Decide, MapMark, Owner, StoredMap
from fulmen.transactional.rules import ABSENT, Changes, Raw, Row, Rule
from fulmen.transactional.stores.clients import needs
from fulmen.transactional.stores.tables import OWNER_COLUMNS

TRIES = 20
MOST_ARGUMENTS = 1_000_000
"""Redis takes a little more in one command."""


class RedisMap(StoredMap):
    """A map in some hashes of a Redis."""

    def __init__(
        self,
        url: str,
        name: str,
        context: TopologyContext,
        *,
        rule: Rule = "transactional",
        key: Kind = "text",
        value: Kind = "json",
    ) -> None:
        """Make the map known; its keys are made when the map is first used.

        Args:
            url: How to connect, as redis-py takes it: "redis://user:password@host:6379/0",
                "rediss://..." or "unix://...".
            name: The name of the hash with the values; those of the others begin with it. In a
                cluster put it, or a part of it, in braces: "{counts}".
            context: What `prepare` was given.
            rule: "opaque" behind an opaque spout, else "transactional".
            key: The type of keys: "text", "integer", "float", "bytes" or "json".
            value: The type of values.

        Raises:
            StoreRefused: An argument can't be right, or redis-py is not installed.
        """
        with needs(f"map {name!r}", "redis", "redis"):
            from fulmen.transactional.stores import redis_connection
        described = redis_connection.described(name, url)
        super().__init__(name, f"Redis {described}", context, rule, key, value)
        if not name or not name.isprintable():
            self.refuse(f"its name is {name!r}", "Write a name that can be printed.")
        self._connection = redis_connection.connection(url)
        self._translated: Callable[[], AbstractContextManager[None]] = lambda: (
            redis_connection.translated(self.where, url)
        )
        self._keys = [name, *(f"{name}:{part}" for part in ("txid", "previous", "tasks", "fulmen"))]
        self._to_key, self._to_value = _from_bytes(key), _from_bytes(value)
        self._mark, self._changed = f"mark:{self.task}", f"keys:{self.task}"

    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Write a commit phase, in one script."""
        with self._translated():
            self._own()
            new = _written_down(self.mark_of(attempt))
            for number in range(TRIES):
                mark = self._connection.client.hget(self._keys[3], self._mark) or b""
                if number and mark == new:
                    return  # an answer was lost: nobody else writes this attempt
                wanted = list(keys)
                if self.must_take_back(attempt, _mark_in(mark)):
                    wanted += self._changed_keys(attempt.txid, set(keys))
                stamps, rows = self._rows(wanted)
                made = decide(rows)
                arguments = self._arguments(
                    attempt, mark, dict(zip(wanted, stamps, strict=True)), made
                )
                answer = self._connection.write(keys=self._keys, args=arguments)
                if answer == b"written":
                    return
                if answer == b"gone":
                    self._refuse_lost()
        raise StoreUnavailable(
            self.where,
            f"other processes were faster {TRIES} times",
            "Nothing was changed. Equal keys must go to the same task: use fields grouping.",
        )

    def read_values(self, keys: Sequence[Raw]) -> dict[Raw, Raw]:
        """The values of keys, all of one moment."""
        with self._translated():
            self._own()
            if not keys:
                return {}
            found = self._connection.client.hmget(self._keys[0], [_bytes(key) for key in keys])
        return {
            key: self._to_value(value)
            for key, value in zip(keys, found, strict=True)
            if value is not None
        }

    def _rows(self, keys: Sequence[Raw]) -> tuple[list[bytes], dict[Raw, Row]]:
        """The stamp of each key, and the rows that there are, all of one moment."""
        if not keys:
            return [], {}
        names = [_bytes(key) for key in keys]
        with self._connection.client.pipeline(transaction=True) as pipe:
            for hash_name in self._keys[:3]:
                pipe.hmget(hash_name, names)
            values, stamps, previous = pipe.execute()
        rows = {}
        for key, value, stamp, before in zip(keys, values, stamps, previous, strict=True):
            if stamp is not None:
                kept = ABSENT if before is None else self._to_value(before)
                txid, task, attempt = map(int, stamp.split(b":"))
                rows[key] = Row(self._to_value(value), txid, task, attempt, kept)
        return [stamp or b"" for stamp in stamps], rows

    def _changed_keys(self, txid: int, known: set[Raw]) -> list[Raw]:
        """The other keys that an earlier attempt of a transaction has changed."""
        text = self._connection.client.hget(self._keys[3], self._changed)
        of_txid, names = json.loads(text) if text else (0, [])
        keys = [self._to_key(name.encode("latin-1")) for name in names]
        return [key for key in keys if key not in known] if of_txid == txid else []

    def _arguments(
        self,
        attempt: TransactionAttempt,
        mark: bytes,
        stamps: Mapping[Raw, bytes],
        made: Changes,
    ) -> list[Any]:
        """Of the script: the mark, what was read, and what is to be written."""
        read = [_bytes(key) for key in stamps]
        rows = {_bytes(key): row for key, row in made.rows.items()}
        changed, kept, unkept = "", [], []
        if self._rule == "opaque":
            names = [name.decode("latin-1") for name in (*rows, *map(_bytes, made.deleted))]
            changed = json.dumps([attempt.txid, names])
            kept = _pairs(
                (name, r.previous) for name, r in rows.items() if r.previous is not ABSENT
            )
            unkept = [name for name, row in rows.items() if row.previous is ABSENT]
        deleted = [_bytes(key) for key in made.deleted]
        values = _pairs((name, row.value) for name, row in rows.items())
        made_stamps = _pairs((name, f"{r.txid}:{r.task}:{r.attempt}") for name, r in rows.items())
        new = _written_down(self.mark_of(attempt))
        arguments: list[Any] = [self._mark, mark, new, changed]
        was = list(stamps.values())
        for part in (read, was, kept, unkept + deleted, values, made_stamps, deleted):
            arguments += [len(part), *part]
        if len(arguments) > MOST_ARGUMENTS:
            self.refuse(
                f"{len(stamps)} keys in one commit phase are more than Redis takes",
                "Give the bolt more tasks, or make batches smaller.",
            )
        return arguments

    def _own(self) -> None:
        """See whose the map is, once for each process; make it ours if it is new."""
        known = self._connection.known.get(self.name)
        if known is None:
            owner = [(name, getattr(self.owner, name)) for name in OWNER_COLUMNS]
            answer = self._connection.own(keys=self._keys, args=_pairs(owner))
            if answer[0] == b"taken":
                self.refuse(
                    f"there is a key {answer[1].decode()!r} that Fulmen has not made",
                    "It was not touched. Use another name for this bolt's map.",
                )
            told = {k.decode(): v.decode() for k, v in zip(*[iter(answer)] * 2, strict=True)}
            if not told.keys() >= set(OWNER_COLUMNS):
                self.refuse(
                    f"the key {self._keys[4]!r} is not as Fulmen makes it",
                    "It was not touched. Use another name for this bolt's map.",
                )
            layout = int(told.pop("layout"))
            known = Owner(**{name: told[name] for name in OWNER_COLUMNS[:-1]}, layout=layout)
            self._connection.known[self.name] = known
        self.owner.refuse_other(self.where, known)

    def _refuse_lost(self) -> None:
        self.refuse(
            f"its key {self._keys[4]!r} is gone: Redis has lost its data, or somebody deleted them",
            "Restore them. To begin with an empty map instead, start the workers anew: the next"
            " message says what else to do.",
        )


def _pairs(items: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Each key, followed by its value."""
    return [_bytes(part) for item in items for part in item]


def _bytes(raw: Any) -> bytes:
    """A key or a value, as Redis keeps it."""
    if isinstance(raw, bytes):
        return raw
    return (repr(raw) if isinstance(raw, float) else str(raw)).encode()


def _from_bytes(kind: Kind) -> Callable[[bytes], Raw]:
    others: dict[str, Callable[[bytes], Raw]] = {"integer": int, "float": float, "bytes": bytes}
    return others.get(kind, bytes.decode)


def _written_down(mark: MapMark) -> bytes:
    return ":".join(map(str, mark)).encode()


def _mark_in(data: bytes) -> MapMark | None:
    if not data:
        return None
    txid, attempt, branch = data.decode().split(":")
    return MapMark(int(txid), int(attempt), branch)
