"""The journals of keyed state, dealt to another number of tasks: by their names, without a look.

A journal's name says which keys in it are the task's: see `homes.Share`. So a segment goes to each
task that has some of its keys, and a part of it that comes back is the same journal again. A part
has the same name whatever else is dealt, so that what was read of it before can be gone on with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fulmen.checkpoint import Ref
from fulmen.engine.keyed.homes import ALL, HomeRule, Share, task_range
from fulmen.engine.state.entries.disk_records import age_of
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import share_of

Refs = Mapping[str, Sequence[Ref]]
"""Journal -> where its payloads are."""
Links = dict[str, list[Ref]]


class _Segment(NamedTuple):
    """A segment that a task has, or a part of one."""

    number: int
    place: int
    ref: Ref
    share: Share | None = None


def dealt(tasks: Sequence[Refs], name: str, to: int, rule: HomeRule) -> list[Links]:
    """The journals of that name for so many tasks, each with the keys that are its own.

    Raises:
        ValueError: Some were dealt by another rule.
    """
    shares: dict[tuple[int, Ref], list[Share]] = defaultdict(list)
    places: dict[tuple[int, Ref], int] = {}
    for task, refs in enumerate(tasks):
        for journal, ref in _segments(refs, name):
            share = share_of(journal) or Share(rule, *task_range(task, len(tasks)))
            if share.rule != rule:
                raise ValueError(str(share.rule))
            number, place = age_of(journal)
            shares[number, ref].append(share)
            places.setdefault((number, ref), place)
    some = [(at, whole) for at, parts in shares.items() for whole in _joined(parts)]
    links: list[Links] = []
    for own in (task_range(task, to) for task in range(to)):
        cuts = (_Segment(at[0], places[at], at[1], whole.cut(*own)) for at, whole in some)
        links.append(_named(name, [one for one in cuts if one.share is not None]))
    return links


def adopted(tasks: Sequence[Refs], name: str, to: int) -> list[Links]:
    """The journals of that name for so many tasks: those of tasks that go are given to others."""
    of: list[list[_Segment]] = [[] for _ in range(to)]
    for task, refs in enumerate(tasks):
        for journal, ref in _segments(refs, name):
            number, place = age_of(journal)
            own = place * len(tasks) + task  # several may have it under one name
            of[task % to].append(_Segment(number, own, ref, share_of(journal)))
    return [_named(name, some) for some in of]


def _segments(refs: Refs, name: str) -> Iterator[tuple[str, Ref]]:
    for journal in segment_journals(refs, name):
        [ref] = refs[journal]
        yield journal, ref


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
    """Segments as journals of one task."""
    links: Links = {}
    for number, place, ref, share in sorted(segments, key=lambda s: s[:2]):
        is_part = share is not None and (share.lo, share.hi) != (0, ALL)
        journal = f"{name}.{number}.{place}" + (f".{share}" if is_part else "")
        assert journal not in links, f"two segments would be {journal}"
        links[journal] = [ref]
    return links
