"""How far event time has come, batch by batch. Pure.

When a batch is committed, all that it emitted has been dealt with everywhere. So one number for
each component is enough, and the header of the next batch has it: in a whole batch, every task sees
the same. The invariants:

- A watermark never goes back: not by a restart, another plan, other code or a source that is back.
- A component that declares event times has the minimum of its parts' newest times, less its lag. A
  part is a part of a source that the spout has named, or else a task.
- A part that is silent for the component's idle timeout, or that has ended, is left out. If all
  are, the watermark stands.
- A task of a spout holds the watermark before its first tuple as well, unless its spout names
  parts: then a task without any part has nothing to come.
- Any other component has the minimum of those it receives tuples from. Those without event times
  are left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fulmen.errors import CheckpointMismatch

SECTION = "time"
"""The section of a commit with the watermarks, as last set."""
FORMAT = 1
TASK = "task "
"""How the names of parts begin that stand for a whole task."""


class Rule(NamedTuple):
    """What a component declares.

    Attributes:
        lag: In milliseconds.
        idle_seconds: Of the batch clock; None: a part is never idle.
    """

    lag: int
    idle_seconds: float | None = None


class Part(NamedTuple):
    """What is known of a part of a source.

    Attributes:
        newest: Its newest event time; None: it has emitted nothing.
        since: When it emitted last, or was first expected to, by the batch clock.
    """

    newest: int | None
    since: float


@dataclass(frozen=True)
class SourceTime:
    """How far a component that declares event times has come.

    Attributes:
        watermark: None: not known yet.
        parts: By name.
    """

    watermark: int | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)

    def after(
        self,
        rule: Rule,
        newest: Mapping[str, int],
        expected: Collection[str],
        ended: Collection[str],
        clock: float,
    ) -> SourceTime:
        """What it is after a batch.

        Args:
            rule: What the component declares.
            newest: Part -> the newest time that it emitted in the batch.
            expected: Names of parts that may still emit, of tasks that have emitted nothing.
            ended: Parts that will never emit again.
            clock: The batch clock.
        """
        parts = dict(self.parts)
        for name, at in newest.items():
            before = parts.get(name, Part(None, clock)).newest
            parts[name] = Part(at if before is None else max(at, before), clock)
        if all(name.startswith(TASK) for name in parts):
            for name in expected:
                parts.setdefault(name, Part(None, clock))
        else:
            parts = {n: part for n, part in parts.items() if part.newest is not None}
        live = [p for n, p in parts.items() if n not in ended and not _is_idle(p, rule, clock)]
        times = [part.newest for part in live]
        known = [at for at in times if at is not None]
        watermark = self.watermark
        if known and len(known) == len(times):
            least = min(known) - rule.lag
            watermark = least if watermark is None else max(watermark, least)
        return SourceTime(watermark, parts)

    def holding(self, rule: Rule, ended: Collection[str], clock: float) -> str | None:
        """The part that holds the watermark; None: all are idle or have ended."""
        live = {
            name: part
            for name, part in self.parts.items()
            if name not in ended and not _is_idle(part, rule, clock)
        }
        order = sorted(live, key=lambda n: (live[n].newest is not None, live[n].newest or 0, n))
        return order[0] if order else None


def _is_idle(part: Part, rule: Rule, clock: float) -> bool:
    return rule.idle_seconds is not None and clock - part.since >= rule.idle_seconds


@dataclass(frozen=True)
class Watermarks:
    """How far event time has come after a commit.

    Attributes:
        sources: Of each component that declares event times.
        passed: Component -> the watermark of what it receives.
        closed: The same before the commit: what was due by it has fired.
    """

    sources: Mapping[str, SourceTime] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)

    def with_passed(
        self, inputs: Mapping[str, Sequence[str]], ended: Collection[str]
    ) -> Watermarks:
        """The same with the watermarks of all bolts made anew.

        Args:
            inputs: Bolt -> the components that it receives tuples from, each behind its own.
            ended: Components that declare event times, and will never emit again.
        """
        out: dict[str, int | None] = {
            name: source.watermark for name, source in self.sources.items() if name not in ended
        }
        known = {*self.sources}
        passed: dict[str, int] = {}
        for bolt, froms in inputs.items():
            timed = [name for name in froms if name in known]
            times = [out[name] for name in timed if name in out]
            least = _least(times)
            before = self.passed.get(bolt)
            if least is None or (before is not None and before > least):
                least = before
            if least is not None:
                passed[bolt] = least
            if timed and bolt not in self.sources:
                known.add(bolt)
                if times:
                    out[bolt] = least
        return Watermarks(self.sources, passed, self.passed)

    def encode(self) -> bytes:
        """For a commit."""
        sources = {
            name: [source.watermark, {n: list(part) for n, part in source.parts.items()}]
            for name, source in self.sources.items()
        }
        content = {"format": FORMAT, "sources": sources, "passed": dict(self.passed)}
        return json.dumps({**content, "closed": dict(self.closed)}, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes | None) -> Watermarks:
        """What `encode` made; None: a checkpoint without event times.

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
            name: SourceTime(watermark, {n: Part(*part) for n, part in parts.items()})
            for name, (watermark, parts) in content["sources"].items()
        }
        return Watermarks(sources, content["passed"], content["closed"])


def _least(times: Iterable[int | None]) -> int | None:
    """The minimum; None: there is none, or one of them is not known."""
    known = list(times)
    found = [at for at in known if at is not None]
    return min(found) if found and len(found) == len(known) else None
