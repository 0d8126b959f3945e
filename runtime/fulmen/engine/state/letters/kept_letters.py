"""Reads the dead letters out of a checkpoint, and finds some of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from fulmen.checkpoint import Manifest, Store, load_many, read_newest
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.state.committed_state import again
from fulmen.engine.state.entries.keyed_state import KeyedState, is_of
from fulmen.engine.state.journals import LETTERS
from fulmen.engine.state.letters.dead_letters import DeadLetter, LetterId
from fulmen.engine.state.letters.letter_entries import forgotten_in, letters_in
from fulmen.plan import task_of_key


class KeptLetter(NamedTuple):
    """A letter and where it is.

    Attributes:
        id: What no other has.
        component: The spout or bolt at which it began.
        task: The number of its task within the component, from 0.
        letter: The letter.
    """

    id: LetterId
    component: str
    task: int
    letter: DeadLetter


@dataclass(frozen=True)
class KeptLetters:
    """The dead letters of a topology, as one commit left them.

    Attributes:
        topology: The name of the topology that the checkpoint belongs to.
        number: The number of the commit.
        letters: The newest first.
        forgotten: Component -> how many had to make room for newer ones.
    """

    topology: str
    number: int
    letters: list[KeptLetter]
    forgotten: dict[str, int]


def read_letters(store: Store) -> KeptLetters:
    """The dead letters of all components, exactly as the newest commit left them.

    Raises:
        CheckpointError: The checkpoint can't be read.
    """
    return again(lambda: letters_of(store, read_newest(store)))


def letters_of(store: Store, manifest: Manifest) -> KeptLetters:
    """The dead letters, as this commit left them."""
    found: list[KeptLetter] = []
    forgotten: dict[str, int] = {}
    for key, journals in journals_with_letters(store, manifest).items():
        component, task = task_of_key(key)
        entries = KeyedState.restore(journals, name=LETTERS)
        found += [KeptLetter(one, component, task, of) for one, of in letters_in(entries)]
        if n := forgotten_in(entries):
            forgotten[component] = forgotten.get(component, 0) + n
    found.sort(key=lambda kept: (kept.letter.at, kept.id), reverse=True)
    return KeptLetters(manifest.topology, manifest.number, found, forgotten)


def journals_with_letters(store: Store, manifest: Manifest) -> Mapping[str, Journals]:
    """The journals of each task that has letters."""
    mine = partial(is_of, LETTERS)
    keys = [key for key, journals in manifest.tasks.items() if any(map(mine, journals))]
    return load_many(store, manifest, keys, mine)
