"""How far event time has come, batch by batch. Pure.

When a batch is committed, all that it emitted has been dealt with everywhere. So one number for
each component is enough, and the header of the next batch has it: in a whole batch, every task sees
the same. The invariants:

- A watermark never goes back: not by a restart, another plan, other code or a source that is back.
- A component that declares event times has the minimum of its parts' newest times, less its lag. A
  part is a part of a source that the spout has named, or else a task.
- A part that is silent for the component's idle timeout, or that has ended, is left out. If all
  are, the part that is furthest counts, whichever fell silent first; or, if the component wants
  that, it goes on with the batch clock from where that part was.
- A task of a spout holds the watermark before its first tuple as well, unless its spout names
  parts: then a task without any part has nothing to come.
- A spout may say which parts it has not read to their ends, such as files. Only these hold the
  watermark, before their first tuple as well, and are never idle. If there are none, the newest
  time of all that was read counts. A task that was never asked holds the watermark, too.
- Parts without an end, such as partitions, hold the watermark before their first tuple as well
  while the spout says that they have something to read, unless they are idle.
- A bolt that has too many results for one batch brings them in several, and tells the bolts behind
  it how far it was before, until it has brought all. Spouts emit nothing meanwhile.
- Any other component has the minimum of those it receives tuples from. Those without event times
  are left out, and so are those whose sources have all ended. Results that these still have must
  not be late for what they meet: so they go on with the source that is furthest then, which is at
  least as far as what they meet is. Where they meet nothing that goes on, they stand.
- A bolt that goes by the clock has the time of day when the batch began, and for what is behind it
  it is as a source that declares event times. Its time stands while it brings results in several
  batches.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from fulmen.errors import CheckpointMismatch

T = TypeVar("T")

SECTION = "time"
"""The section of a commit with the watermarks, as last set."""
FORMAT = 1
TASK = "task "
"""How the names of parts begin that stand for a whole task."""
PART = "part "
"""How the names of parts begin that a spout has named."""
READ = "what was read"
"""The part that stands for all parts that were read to their ends, if the spout says which."""


class WatermarkRule(NamedTuple):
    """A component's declared rule for its watermark.

    Attributes:
        lag: In milliseconds.
        idle_seconds: Of the batch clock; None: a part is never idle.
        advances: Whether event time goes on with the batch clock while all parts are idle.
    """

    lag: int
    idle_seconds: float | None = None
    advances: bool = False


class SourcePart(NamedTuple):
    """A part of a source, and how far its event time is.

    Attributes:
        newest: Its newest event time; None: it has emitted nothing.
        since: When it emitted last, or was first expected to, by the batch clock.
        reader: The name of the task that says that it has not read it to its end; "": none says.
    """

    newest: int | None
    since: float
    reader: str = ""


def _is_gone(name: str, tasks: int) -> bool:
    """Whether it is the name of a task beyond these."""
    return name.startswith(TASK) and int(name.removeprefix(TASK)) >= tasks


@dataclass(frozen=True)
class SourceTime:
    """The event time of a component that declares one.

    Attributes:
        watermark: None: not known yet.
        parts: By name.
        held_by: The part that the watermark waits for; None: all are idle or have ended, or no
            batch was counted since the driver began. Not in a commit.
        to_read: Task -> its parts without an end that had something to read when it was asked last.
            Not in a commit.
    """

    watermark: int | None = None
    parts: Mapping[str, SourcePart] = field(default_factory=dict)
    held_by: str | None = field(default=None, compare=False)
    to_read: Mapping[str, Collection[str]] = field(default_factory=dict, compare=False)

    def with_tasks(self, tasks: int) -> SourceTime:
        """See `Watermarks.with_tasks`."""
        first = f"{TASK}0"
        parts = {
            name: SourcePart(*part[:2], first) if _is_gone(part.reader, tasks) else part
            for name, part in self.parts.items()
            if not _is_gone(name, tasks)
        }
        return replace(self, parts=parts, to_read={})

    def after(
        self,
        rule: WatermarkRule,
        newest: Mapping[str, int],
        expected: Collection[str],
        ended: Collection[str],
        clock: float,
        unread: Mapping[str, Collection[str] | None] = MappingProxyType({}),
        to_read: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> SourceTime:
        """The source's time after a batch.

        Args:
            rule: What the component declares.
            newest: Part -> the newest time that it emitted in the batch.
            expected: Names of parts that may still emit, of tasks that have emitted nothing.
            ended: Parts that will never emit again.
            clock: The batch clock.
            unread: Task that was asked in the batch -> the parts that it has not read to their
                ends; None: it does not say.
            to_read: Task that was asked in the batch -> its parts without an end that have
                something to read.
        """
        to_read = {**self.to_read, **to_read}
        waiting = {name for names in to_read.values() for name in names}
        parts = dict(self.parts)
        for name, at in newest.items():
            before = parts.get(name, SourcePart(None, clock))
            parts[name] = SourcePart(_later(at, before.newest), clock, before.reader)
        if _says_what_is_unread(parts, unread):
            parts = _with_unread(parts, unread, clock)
            if not self.parts:  # tasks that were not asked yet may have anything
                for name in {*expected} - {*unread}:
                    parts[name] = SourcePart(None, clock, name)
        else:
            parts.pop(READ, None)
            parts = {n: SourcePart(part.newest, part.since) for n, part in parts.items()}
            if not waiting and all(name.startswith(TASK) for name in parts):
                waiting = {*expected}
            else:
                parts = {n: p for n, p in parts.items() if p.newest is not None or n in waiting}
            for name in waiting:
                parts.setdefault(name, SourcePart(None, clock))
        may_come = {n: part for n, part in parts.items() if n not in ended}
        live = {n: part for n, part in may_come.items() if part.reader} or {
            n: part for n, part in may_come.items() if not _is_idle(part, rule, clock)
        }
        order = sorted(live, key=lambda n: (live[n].newest is not None, live[n].newest or 0, n))
        held_by = order[0] if order else None
        least = None if held_by is None else live[held_by].newest
        if not live:
            silent = [part for part in may_come.values() if part.newest is not None]
            come_to = [_with_silence(p, clock) if rule.advances else p.newest or 0 for p in silent]
            least = max(come_to, default=None)
        watermark = self.watermark
        if least is not None:
            least -= rule.lag
            watermark = least if watermark is None else max(watermark, least)
        return SourceTime(watermark, parts, held_by, to_read)


def _says_what_is_unread(
    parts: Mapping[str, SourcePart], unread: Mapping[str, Collection[str] | None]
) -> bool:
    if any(names is not None for names in unread.values()):
        return True
    if unread:  # it says no more
        return any(p.reader and p.reader not in unread for p in parts.values())
    return READ in parts or any(p.reader for p in parts.values())


def _with_unread(
    parts: Mapping[str, SourcePart], unread: Mapping[str, Collection[str] | None], clock: float
) -> dict[str, SourcePart]:
    """Parts that are not read to their ends as they are, and all others as one."""
    by_name = {n: p for n, p in parts.items() if p.reader and p.reader not in unread}
    for reader, names in unread.items():
        for name in names or ():
            before = parts.get(name, SourcePart(None, clock))
            by_name[name] = SourcePart(before.newest, before.since, reader)
    over = [p for n, p in parts.items() if n not in by_name and p.newest is not None]
    if over:
        newest = max(p.newest for p in over if p.newest is not None)
        by_name[READ] = SourcePart(newest, max(p.since for p in over))
    return by_name


def _later(at: int, before: int | None) -> int:
    return at if before is None else max(at, before)


def _with_silence(part: SourcePart, clock: float) -> int:
    """The time that it has come to, if it has gone on since its last tuple as the clock has."""
    return (part.newest or 0) + round((clock - part.since) * 1000)


def _is_idle(part: SourcePart, rule: WatermarkRule, clock: float) -> bool:
    return rule.idle_seconds is not None and clock - part.since >= rule.idle_seconds


@dataclass(frozen=True)
class Watermarks:
    """The event time of all components after a commit.

    Attributes:
        sources: Of each component that declares event times.
        passed: Component -> the watermark of what it receives.
        closed: The same before the commit: what was due by it has fired.
        told: Bolt that may have too many results for one batch -> the watermark that it tells those
            behind it, instead of that of what it receives.
        ended: Components that declare event times, and will never emit again. Not in a commit.
    """

    sources: Mapping[str, SourceTime] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    told: Mapping[str, int | None] = field(default_factory=dict)
    ended: frozenset[str] = field(default=frozenset(), compare=False)

    def are_behind(self, by_clock: Collection[str] = ()) -> bool:
        """Whether a bolt has not brought all results that were due in the batch.

        Args:
            by_clock: Bolts that go by the clock, whose results are due in the batch that it is of.
        """
        return any(at != self.closed.get(b) or b in by_clock for b, at in self.told.items())

    def with_passed(
        self,
        inputs: Mapping[str, Sequence[str]],
        ended: Collection[str],
        by_clock: Mapping[str, int] = MappingProxyType({}),
        due: Mapping[str, int] = MappingProxyType({}),
    ) -> Watermarks:
        """Copy with the watermarks of all bolts made anew.

        Args:
            inputs: Bolt -> the components that it receives tuples from, each behind its own.
            ended: Components that declare event times, and will never emit again.
            by_clock: Bolt that goes by the clock -> the time of the batch.
            due: Bolt that may have too many results for one batch -> when the next ones are due.
        """
        told: dict[str, int | None] = {}
        out: dict[str, int | None] = {
            **by_clock,
            **{name: one.watermark for name, one in self.sources.items() if name not in ended},
        }
        known = {*self.sources, *by_clock}
        furthest = max((at for at in out.values() if at is not None), default=None)
        meets = _meeting_what_goes_on(inputs, out)
        passed: dict[str, int] = {}
        for bolt, froms in inputs.items():
            timed = [name for name in froms if name in known]
            times = [out[name] for name in timed if name in out]
            least = furthest if timed and bolt in meets else _least(times)
            before = self.passed.get(bolt)
            least = by_clock.get(bolt, least)
            if least is None or (before is not None and before > least):
                least = before
            if least is not None:
                passed[bolt] = least
            if timed and bolt not in known:
                known.add(bolt)
                if times:
                    out[bolt] = least
            if bolt not in due or least is None or due[bolt] > least:
                continue
            is_behind = bolt in by_clock or (before is not None and due[bolt] <= before)
            told[bolt] = self.told.get(bolt, before) if is_behind else before
            if bolt not in self.sources:
                out[bolt] = told[bolt]
        return Watermarks(self.sources, passed, self.passed, told, frozenset(ended))

    def renamed(self, names: Mapping[str, str]) -> Watermarks:
        """Copy for components that were renamed: the old name of each, and its new one."""

        def moved(of: Mapping[str, T]) -> dict[str, T]:
            return {names.get(name, name): one for name, one in of.items()}

        of_bolts = moved(self.passed), moved(self.closed), moved(self.told)
        return Watermarks(moved(self.sources), *of_bolts)

    def with_tasks(self, numbers: Mapping[str, int]) -> Watermarks:
        """Copy for components with so many tasks: what stands for a task that goes is left out.

        A part that such a task has not read to its end still holds the watermark, until the task
        that has it now says so.
        """
        sources = dict(self.sources)
        for name, tasks in numbers.items():
            if name in sources:
                sources[name] = sources[name].with_tasks(tasks)
        return replace(self, sources=sources)

    def encode(self) -> bytes:
        """Turn it into bytes for a commit."""
        sources = {
            name: [source.watermark, {n: list(part) for n, part in source.parts.items()}]
            for name, source in self.sources.items()
        }
        content = {"format": FORMAT, "sources": sources, "passed": dict(self.passed)}
        content |= {"closed": dict(self.closed), "told": dict(self.told)}
        return json.dumps(content, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes | None) -> Watermarks:
        """Read what `encode` made; None: a checkpoint without event times.

        Raises:
            CheckpointMismatch: A later version of Fulmen made it.
        """
        if not data:
            return Watermarks()
        content: dict[str, Any] = json.loads(data)
        if content["format"] != FORMAT:
            raise CheckpointMismatch(
                f"the checkpoint's watermarks have format {content['format']}, and this version of"
                f" Fulmen reads format {FORMAT}. Use the version that wrote them, or a later one"
            )
        sources = {
            name: SourceTime(watermark, {n: SourcePart(*part) for n, part in parts.items()})
            for name, (watermark, parts) in content["sources"].items()
        }
        return Watermarks(sources, content["passed"], content["closed"], content["told"])


def _meeting_what_goes_on(
    inputs: Mapping[str, Sequence[str]], sources: Collection[str]
) -> set[str]:
    """Components that have no source that goes on, but emit to what has one, or to such as they.

    Args:
        inputs: Bolt -> the components that it receives tuples from, each behind its own.
        sources: Those that go on.
    """
    live = {*sources}
    for bolt, froms in inputs.items():
        if not live.isdisjoint(froms):
            live.add(bolt)
    meeting: set[str] = set()
    for bolt, froms in reversed([*inputs.items()]):
        if bolt in live or bolt in meeting:
            meeting.update(name for name in froms if name not in live)
    return meeting


def _least(times: Iterable[int | None]) -> int | None:
    """The minimum; None: there is none, or one of them is not known."""
    known = list(times)
    certain = [at for at in known if at is not None]
    return min(certain) if certain and len(certain) == len(known) else None
