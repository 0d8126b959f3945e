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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.services.pools import shared
from fulmen.services.service import ErrorKind
from fulmen.transactional.columns import Kind
from fulmen.transactional.maps import Decide, StoredMap
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import ABSENT, Changes, Raw, Row, Rule
from fulmen.transactional.stores.clients import needs
from fulmen.transactional.stores.redis_scripts import OWN, WRITE
from fulmen.transactional.stores.sql import KEPT, OWNER_COLUMNS

TRIES = 20
MOST_ARGUMENTS = 1_000_000
"""Redis takes a little more in one command."""
AGAIN = "The transaction is tried again: whether this attempt was written shows then."
CURES = {
    "the server does not let us in": "Check user and password.",
    "a right is missing": f"{KEPT} The user needs EVALSHA, SCRIPT LOAD, MULTI, EXEC, EXISTS, HGET,"
    " HMGET, HGETALL, HSET and HDEL on the map's keys.",
    "the server is a read-only replica": f"{KEPT} Connect to the primary.",
    "the server's memory is full": f"{KEPT} Raise maxmemory.",
    "the server can't write to its disk": f"{KEPT} Make room, or see its log: it goes on then.",
    "a key is of another type than Fulmen makes": "Use another name for this bolt's map.",
    "a key is at another node of the cluster, and Fulmen uses one node alone": f"{KEPT} Use names"
    " whose keys are all at the node of the URL, or a Redis without cluster.",
}
"""The cure of an error, by its meaning."""


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
        with needs(f"map {name!r}", "redis"):
            from fulmen.services.redis import Redis
        try:
            # Once again is safe for all that we do: a script that has run finds its own mark.
            self._service = Redis(url, retries=1)
        except ServiceUnavailable as error:
            raise StoreRefused(f"map {name!r}", error.reason) from None
        super().__init__(name, self._service.name, context, rule, key, value)
        if not name or not name.isprintable():
            self.refuse(f"its name is {name!r}", "Write a name that can be printed.")
        self._client = self._service.client
        self._own_script = self._client.register_script(OWN)
        self._write_script = self._client.register_script(WRITE)
        self._known: dict[str, Owner] = shared(("maps in redis", url), dict)
        parts = ("txid", "previous", "tasks", "fulmen")
        self.hashes = [name, *(f"{name}:{part}" for part in parts)]
        self._to_key, self._to_value = _from_bytes(key), _from_bytes(value)
        self._mark, self._changed = f"mark:{self.task}", f"keys:{self.task}"

    def commit_phase(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide
    ) -> None:
        """Write a commit phase, in one script."""
        with self._service.told(self._meant):
            self.make_or_check()
            for number in range(TRIES):
                part = self._part(attempt, keys, decide, is_again=number > 0)
                if part is None:
                    return  # an answer was lost: nobody else writes this attempt
                if self.joined is not None:
                    if any(other.name == self.name for other, _ in self.joined):
                        self.refuse_twice(attempt)
                    self.joined.append((self, part))
                    return
                if self._write([(self, part)]):
                    return
        self._refuse_faster()

    def _part(
        self, attempt: TransactionAttempt, keys: Sequence[Raw], decide: Decide, *, is_again: bool
    ) -> list[Any] | None:
        """The script's arguments for this map; None: it was written."""
        mark = self._client.hget(self.hashes[3], self._mark) or b""
        if is_again and mark == _written_down(self.mark_of(attempt)):
            return None
        wanted = list(keys)
        if self.must_take_back(attempt, _mark_in(mark)):
            wanted += self._changed_keys(attempt.txid, set(keys))
        stamps, rows, _ = self._rows(wanted)
        made = decide(rows)
        return self._arguments(attempt, mark, dict(zip(wanted, stamps, strict=True)), made)

    def _write(self, parts: Sequence[Part]) -> bool:
        """Have the script write maps. Returns whether all was as it had been read."""
        arguments = [argument for _, part in parts for argument in part]
        if len(arguments) > MOST_ARGUMENTS:
            self.refuse(
                f"the {len(arguments):,} keys and values of one commit phase are more than Redis"
                " takes",
                "Give the bolt more tasks, or make batches smaller.",
            )
        keys = [key for a_map, _ in parts for key in a_map.hashes]
        answer = self._write_script(keys=keys, args=arguments)
        if answer == b"gone":
            self._refuse_lost()
        return bool(answer == b"written")

    @contextmanager
    def one_commit(self, maps: Sequence[StoredMap]) -> Iterator[None]:
        """Have what is written to several maps in one script, at the end."""
        own = [a_map for a_map in maps if isinstance(a_map, RedisMap)]
        parts: list[Part] = []
        with self._service.told(self._meant):
            for a_map in own:
                a_map.make_or_check()
        for a_map in own:
            a_map.joined = parts
        try:
            yield
        finally:
            for a_map in own:
                a_map.joined = None
        with self._service.told(self._meant):
            is_written = (
                not parts
                or self._write(parts)
                or all(a_map.has_written(part) for a_map, part in parts)
            )
        if not is_written:
            self._refuse_faster()

    def has_written(self, part: Sequence[Any]) -> bool:
        """Whether the mark is there that the script was to write: its answer was lost then."""
        mark, _, new, *_ = part
        return bool(self._client.hget(self.hashes[3], mark) == new)

    def _meant(self, error: Any) -> StoreError:
        kind, reason = self._service.meaning(error)
        is_refused = kind is ErrorKind.REFUSED
        text = f"{reason} ({self._service.said(error)})"
        cure = CURES.get(reason, KEPT if is_refused else AGAIN)
        return (StoreRefused if is_refused else StoreUnavailable)(self.where, text, cure)

    def _refuse_faster(self) -> NoReturn:
        raise StoreUnavailable(
            self.where,
            "other processes were faster",
            "Nothing was changed. Equal keys must go to the same task: use fields grouping.",
        )

    def read(self, keys: Sequence[Raw], *, with_marks: bool) -> FoundMap | None:
        """Read the rows of these keys."""
        with self._service.told(self._meant):
            known = self._known
            owner = known.get(self.name)
            if owner is None:
                told = self._client.hgetall(self.hashes[4])
                if not told:
                    return None
                owner = known[self.name] = self._owner_in(told)
            _, rows, marks = self._rows(keys, with_marks=with_marks)
        return FoundMap(owner, rows, marks)

    def _rows(
        self, keys: Sequence[Raw], *, with_marks: bool = False
    ) -> tuple[list[bytes], dict[Raw, Row], dict[int, MapMark]]:
        """The stamp of each key, the rows that there are, and the marks, all of one moment."""
        if not (keys or with_marks):
            return [], {}, {}
        names = [_bytes(key) for key in keys] or [b""]
        with self._client.pipeline(transaction=True) as pipe:
            for hash_name in self.hashes[:3]:
                pipe.hmget(hash_name, names)
            if with_marks:
                pipe.hgetall(self.hashes[3])
            values, stamps, previous, *tasks = pipe.execute()
        told = {name: data for of_task in tasks for name, data in of_task.items()}
        by_name = {name: _mark_in(told[name]) for name in told if name.startswith(b"mark:")}
        marks = {int(name[5:]): mark for name, mark in by_name.items() if mark is not None}
        if not keys:
            return [], {}, marks
        rows = {}
        for key, value, stamp, before in zip(keys, values, stamps, previous, strict=True):
            if stamp is not None:
                kept = ABSENT if before is None else self._to_value(before)
                txid, task, attempt = map(int, stamp.split(b":"))
                rows[key] = Row(self._to_value(value), txid, task, attempt, kept)
        return [stamp or b"" for stamp in stamps], rows, marks

    def _changed_keys(self, txid: int, known: set[Raw]) -> list[Raw]:
        """The other keys that an earlier attempt of a transaction has changed."""
        text = self._client.hget(self.hashes[3], self._changed)
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
        """Arguments of the script: the mark, what was read, and what is to be written."""
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
        return arguments

    def make_or_check(self) -> None:
        """See whose the map is, once for each process; make it ours if it is new."""
        known = self._known.get(self.name)
        if known is None:
            owner = [(name, getattr(self.owner, name)) for name in OWNER_COLUMNS]
            answer = self._own_script(keys=self.hashes, args=_pairs(owner))
            if answer[0] == b"taken":
                self.refuse(
                    f"there is a key {answer[1].decode()!r} that Fulmen has not made",
                    "It was not touched. Use another name for this bolt's map.",
                )
            known = self._owner_in(dict(zip(*[iter(answer)] * 2, strict=True)))
            self._known[self.name] = known
        self.owner.refuse_other(self.where, known)

    def _owner_in(self, found: Mapping[bytes, bytes]) -> Owner:
        told = {key.decode(): value.decode() for key, value in found.items()}
        if not told.keys() >= set(OWNER_COLUMNS):
            self.refuse(
                f"the key {self.hashes[4]!r} is not as Fulmen makes it",
                "It was not touched. Use another name for this map.",
            )
        layout = int(told.pop("layout"))
        return Owner(**{name: told[name] for name in OWNER_COLUMNS[:-1]}, layout=layout)

    def _refuse_lost(self) -> NoReturn:
        raise StoreUnavailable(
            self.where,
            f"its key {self.hashes[4]!r} is gone: Redis has lost its data, or somebody deleted it",
            "Restore them. To begin with an empty map instead, start the workers anew: the next"
            " message says what else to do.",
        )


Part = tuple[RedisMap, list[Any]]
"""A map, and the script's arguments for it."""


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
