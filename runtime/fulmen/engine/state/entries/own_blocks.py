"""What of the segments of a keyed state belongs to a task: after a rescale, not all keys. Pure.

A journal whose name ends in a share has keys of other tasks as well, until it is merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fulmen.engine.keyed.entries_of_many import NOTHING, EntriesOfMany
from fulmen.engine.keyed.homes import Share
from fulmen.engine.state.entries.segment_blocks import BlockContent
from fulmen.engine.state.entries.segment_format import DELETED_BYTES
from fulmen.engine.state.values.renamed_classes import loads


def share_of(journal: str) -> Share | None:
    """The part of a journal that belongs to the task; None: all of it."""
    _, _, _, *share = journal.split(".")
    return Share.read(*share) if share else None


def of_many(journals: Iterable[str]) -> EntriesOfMany | None:
    """What takes the entries of these segments that are of many keys; None: there are none."""
    return EntriesOfMany.among(map(share_of, journals))


def take_many(
    many: EntriesOfMany,
    journal: str,
    groups: Iterable[tuple[float, Mapping[Any, Any]]],
    deleted: Iterable[Any],
) -> None:
    """Take the entries of a block that are of many keys."""
    share = share_of(journal)
    for _, entries in groups:
        many.take(share, entries, ())
    many.take(share, {}, deleted)


def taking(
    many: EntriesOfMany, journal: str, blocks: Iterable[BlockContent]
) -> Iterator[BlockContent]:
    """Blocks whose values are pickled, each of which `take_many` is done with."""
    of = many.rule.is_of_many
    for block in blocks:
        groups = [
            (w, {k: loads(data) for k, data in one.items() if of(k)}) for w, one in block.groups
        ]
        take_many(many, journal, groups, block.deleted)
        yield block


def settle(many: EntriesOfMany, state: dict[Any, Any], changed: dict[Any, Any]) -> None:
    """Put what the task has of entries of many keys in the place of what segments have."""
    for key, value in many.items():
        if value is NOTHING:
            dict.pop(state, key, None)
        else:
            dict.__setitem__(state, key, value)
        changed[key] = None


def own_blocks(
    journal: str, blocks: Iterable[BlockContent]
) -> Iterator[tuple[BlockContent, float]]:
    """What is in the blocks of a journal, without keys that belong to other tasks.

    An entry of many keys is whole: see `of_many`.

    Yields:
        A block, and about what the keys of others take in it.
    """
    share = share_of(journal)
    for block in blocks:
        mine = own_block(share, block)
        others = sum(
            weight * (len(some) - len(left))
            for (weight, some), (_, left) in zip(block.groups, mine.groups, strict=True)
        )
        others += DELETED_BYTES * (len(block.deleted) - len(mine.deleted))
        yield mine, others


def own_block(share: Share | None, block: BlockContent) -> BlockContent:
    """What of a block is in a share; None: all of it."""
    if share is None:
        return block
    own = [(weight, {k: some[k] for k in share.own(list(some))}) for weight, some in block.groups]
    return BlockContent(own, share.own(block.deleted))
