"""The files that tasks have read, dealt to another number of tasks. No I/O.

Each goes to the task that its name belongs to, with its position and its messages that have failed.
Its number stays, as it is part of their ids; no two tasks have given the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fulmen.api.components.kept import Kept
from fulmen.connectors.files.places.local import as_text
from fulmen.connectors.files.positions import FileProgress, Key, Position, place_of


def deal(kept: Sequence[Kept], tasks: int) -> list[Kept]:
    """Deal files to so many tasks.

    Args:
        kept: What each task keeps now.
        tasks: The new number.

    Raises:
        ValueError: It can't be done for now.
    """
    dealing = _Dealing([one.fields.get("progress", FileProgress()) for one in kept], tasks)
    for task, one in enumerate(kept):
        dealing.take(task, one)
    return dealing.dealt


class _Dealing:
    """New tasks, and what they have got so far."""

    def __init__(self, before: Sequence[FileProgress], tasks: int) -> None:
        self._before = before
        self._folders = list(dict.fromkeys(f for one in before for f in one.folders))
        highest = max(one.next_number for one in before) * len(before)
        self._progress = [
            FileProgress({}, -(-highest // tasks), [*self._folders], self._inodes())
            for _ in range(tasks)
        ]
        self.dealt = [Kept({"progress": one}, {}, []) for one in self._progress]
        self._open: list[dict[Key, int]] = [{} for _ in range(tasks)]

    def _inodes(self) -> dict[int, int]:
        """Of folders, unless tasks disagree: then none is known until files are found there."""
        seen: dict[int, set[int]] = {}
        for one in self._before:
            for number, inode in one.inodes.items():
                seen.setdefault(self._folders.index(one.folders[number]), set()).add(inode)
        return {number: min(inodes) for number, inodes in seen.items() if len(inodes) == 1}

    def take(self, task: int, kept: Kept) -> None:
        """Deal what one task had."""
        before, tasks = self._before[task], len(self.dealt)
        homes = {n: p.owner % tasks for n, p in before.positions.items()}
        opened = {p.key: homes[n] for n, p in before.positions.items() if not p.is_gone}
        for number, position in before.positions.items():
            self._add(homes[number], number, replace(position, key=self._key(before, position.key)))
        for key, summary in kept.state.items():
            if isinstance(key, str):
                raise ValueError(f"self.state has the key {key!r}, which is no file's")
            home = opened.get(key, Position.owner_in(summary) % tasks)
            state, new = self.dealt[home].state, self._key(before, key)
            state[new] = max(state.get(new, summary), summary, key=Position.age_in)
        for msg_id in kept.failed:
            self.dealt[homes[place_of(msg_id)[0]]].failed.append(msg_id)
        for msg_id in before.again:
            self._progress[homes[place_of(msg_id)[0]]].again.append(msg_id)
        for msg_id in before.held:
            self._progress[homes[place_of(msg_id)[0]]].held.append(msg_id)

    def _key(self, before: FileProgress, key: Key) -> Key:
        if isinstance(key, int):
            return key
        folder, inode = key
        return self._folders.index(before.folders[folder]), inode

    def _add(self, home: int, number: int, position: Position) -> None:
        """Add a file that is open. It may be so in two tasks, if it got the name of another one's.

        Who has looked at it last knows best what it is.
        """
        positions, opened = self._progress[home].positions, self._open[home]
        other = None if position.is_gone else opened.get(position.key)
        if other is None:
            positions[number] = position
            if not position.is_gone:
                opened[position.key] = number
            return
        pair = {other: positions.pop(other), number: position}
        newest = max(pair, key=lambda n: Position.age_in(pair[n].summary()))
        if any(p.in_flight for n, p in pair.items() if n != newest):
            raise ValueError(
                f"file '{as_text(position.path)}' was renamed, and two tasks read it. Messages of"
                " it are not acked yet: try again when they are"
            )
        positions[newest] = pair[newest]
        opened[position.key] = newest
