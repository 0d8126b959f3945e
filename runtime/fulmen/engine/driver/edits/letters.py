"""Sends dead letters and messages of files again when a topology that is stopped starts next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from fulmen.checkpoint import Manifest, Store, read_newest
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.edits.changes import Author, StateChange, changes_in
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import LETTERS
from fulmen.engine.state.letters import letter_entries
from fulmen.engine.state.letters.dead_letters import DeadLetter, LetterId
from fulmen.engine.state.letters.kept_letters import KeptLetter, journals_with_letters, letters_of
from fulmen.engine.state.letters.message_lines import MessagePart
from fulmen.plan import task_key, task_of_key

Take = Callable[[KeyedState, Iterable[Sequence[int]]], list[LetterId]]


def replay_letters(store: Store, ids: Collection[str], author: Author) -> list[KeptLetter]:
    """Have letters sent again when the topology starts next.

    Args:
        store: The checkpoint.
        ids: Those of the letters.
        author: Who wants it, and why.

    Returns:
        Those that will be sent.

    Raises:
        CheckpointError: The checkpoint can't be read, or somebody else commits meanwhile.
    """

    def want(entries: KeyedState, keys: Iterable[Sequence[int]]) -> list[LetterId]:
        return letter_entries.want(entries, keys, author.told)

    return _changed(store, ids, author, "replay", want)


def drop_letters(store: Store, ids: Collection[str], author: Author) -> list[KeptLetter]:
    """Remove letters. Arguments, result and errors as those of `replay_letters`."""
    return _changed(store, ids, author, "drop", letter_entries.drop)


def _changed(
    store: Store, ids: Collection[str], author: Author, action: str, take: Take
) -> list[KeptLetter]:
    edit = Edit(store, author)
    meant = [one for one in letters_of(store, edit.manifest).letters if str(one.id) in ids]
    taken: set[LetterId] = set()
    for key, journals in journals_with_letters(store, edit.manifest).items():
        entries = KeyedState.restore(journals, name=LETTERS)
        taken.update(take(entries, [kept.id for kept in meant]))
        for journal, (data, keep_from) in entries.updates(edit.number).items():
            edit.add(key, journal, data, keep_from)
    changed = [kept for kept in meant if kept.id in taken]
    if changed:
        components = {kept.component for kept in changed}
        edit.commit(change_of(action, components, [str(kept.id) for kept in changed]))
    return changed


def change_of(
    action: str, components: Iterable[str], ids: Sequence[str], sent: Sequence[str] = ()
) -> StateChange:
    """What the log says of letters."""
    names = ", ".join(sorted(components))
    return StateChange(action, names, LETTERS, len(ids), ids, sent=sent)


class Senders(NamedTuple):
    """From where messages can be sent, and what was sent already.

    Attributes:
        tasks: The components at which trees begin, and how many tasks each has.
        sent: The parts of files that were sent -> the commit.
    """

    tasks: Mapping[str, int]
    sent: Mapping[str, int]


def senders_of(manifest: Manifest) -> Senders:
    """From where messages of this topology can be sent."""
    layout = layout_of(manifest)
    keys = sorted(layout.all_origins) if layout is not None else []
    tasks = {name: layout.tasks[name] for name, _ in map(task_of_key, keys)} if layout else {}
    sent = {part: one.number for one in changes_in(manifest) for part in one.sent}
    return Senders(tasks, sent)


def senders(store: Store) -> Senders:
    """The same, as of the newest commit."""
    return senders_of(read_newest(store))


def shares(
    messages: Sequence[tuple[str, DeadLetter]], tasks: Mapping[str, int]
) -> dict[str, list[DeadLetter]]:
    """Share messages among the tasks of the component that each is sent from."""
    dealt: dict[str, list[DeadLetter]] = {}
    for place, (component, letter) in enumerate(messages):
        dealt.setdefault(task_key(component, place % tasks[component]), []).append(letter)
    return dealt


def send_messages(store: Store, parts: Sequence[MessagePart], author: Author) -> None:
    """Have messages sent when the topology starts next, shared among the tasks of each component.

    Args:
        store: The checkpoint.
        parts: The messages, each of which is sent from one of `senders`.
        author: Who wants it, and why.

    Raises:
        CheckpointError: The checkpoint can't be read, or somebody else commits meanwhile.
    """
    edit = Edit(store, author)
    known = journals_with_letters(store, edit.manifest)
    messages = [one for part in parts for one in part.messages]
    ids: list[str] = []
    for key, letters in shares(messages, senders_of(edit.manifest).tasks).items():
        entries = KeyedState.restore(known.get(key, {}), name=LETTERS)
        task = task_of_key(key)[1]
        ids += map(str, letter_entries.send(entries, letters, edit.number, task, author.told))
        for journal, (data, keep_from) in entries.updates(edit.number).items():
            edit.add(key, journal, data, keep_from)
    components = {component for component, _ in messages}
    edit.commit(change_of("send", components, ids, [part.id for part in parts]))
