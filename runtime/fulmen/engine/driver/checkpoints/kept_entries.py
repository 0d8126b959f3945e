"""The journals of keyed state, dealt to another number of tasks: by their names, without a look.

A journal's name says which keys in it are the task's: see `homes.Share`. So a segment goes to each
task that has some of its keys, and a part of it that comes back is the same journal again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fulmen.checkpoint import Ref
from fulmen.engine.keyed.homes import ALL, HomeRule, Share, task_range
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import share_of

Refs = Mapping[str, Sequence[Ref]]
"""Journal -> where its payloads are."""
Links = dict[str, list[Ref]]


class _Segment(NamedTuple):
    """A segment that a task has, or a part of one."""

    number: int
    ref: Ref
    share: Share | None = None


def dealt(tasks: Sequence[Refs], name: str, to: int, rule: HomeRule) -> list[Links]:
    """The journals of that name for so many tasks, each with the keys that are its own.

    Raises:
        ValueError: Some were dealt by another rule.
    """
    shares: dict[tuple[int, Ref], list[Share]] = defaultdict(list)
    for task, refs in enumerate(tasks):
        for journal, ref in _segments(refs, name):
            share = share_of(journal) or Share(rule, *task_range(task, len(tasks)))
            if share.rule != rule:
                raise ValueError(str(share.rule))
            shares[_number(journal), ref].append(share)
    some = [
        (number, ref, whole) for (number, ref), parts in shares.items() for whole in _joined(parts)
    ]
    links: list[Links] = []
    for own in (task_range(task, to) for task in range(to)):
        cuts = ((number, ref, whole.cut(*own)) for number, ref, whole in some)
        links.append(_named(name, [_Segment(*one) for one in cuts if one[-1] is not None]))
    return links


def adopted(tasks: Sequence[Refs], name: str, to: int) -> list[Links]:
    """The journals of that name for so many tasks: those of tasks that go are given to others."""
    of: list[list[_Segment]] = [[] for _ in range(to)]
    for task, refs in enumerate(tasks):
        of[task % to] += (
            _Segment(_number(journal), ref, share_of(journal))
            for journal, ref in _segments(refs, name)
        )
    return [_named(name, some) for some in of]


def _segments(refs: Refs, name: str) -> Iterator[tuple[str, Ref]]:
    for journal in segment_journals(refs, name):
        [ref] = refs[journal]
        yield journal, ref


def _number(journal: str) -> int:
    return int(journal.split(".")[1])


def _joined(parts: Sequence[Share]) -> Iterator[Share]:
    """Parts of one segment that touch, as one."""
    first, *rest = sorted(parts, key=lambda share: share.lo)
    for share in rest:
        if share.lo <= first.hi:
            first = Share(first.rule, first.lo, max(first.hi, share.hi))
        else:
            yield first
            first = share
    yield first


def _named(name: str, segments: Sequence[_Segment]) -> Links:
    """Segments as journals of one task, in the order of their commits."""
    links: Links = {}
    place = 0
    for i, (number, ref, share) in enumerate(some := sorted(segments, key=lambda s: s.number)):
        place = place + 1 if i and some[i - 1].number == number else 0
        is_part = share is not None and (share.lo, share.hi) != (0, ALL)
        suffix = f".{share}" if is_part else ""
        links[f"{name}.{number}.{place}{suffix}"] = [ref]
    return links
