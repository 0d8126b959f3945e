"""The format of what is stored: commits, and the manifest that a chain of commits adds up to.

Every object is framed: four bytes of magic, one byte with the version of the format, the crc32 of
that version and the body (big-endian), the body. A commit's body is a msgpack map with the fields
of `Commit`; a state file's body is the caller's bytes. docs/checkpoint.md describes both.

A commit says what changed. Each `MANIFEST_EVERY`-th one, and each claim, also holds the manifest:
the whole state *before* it, without the data that other objects hold. So the state after commit N
is the manifest in the last commit up to N that has one, with that commit and all up to N applied.
Before rather than after: then a commit is written first and applied to the manifest in memory when
that succeeded, so that a failed write needs no rollback.

Rejected: a manifest per commit (thousands of tasks, 100 commits a second); pickle (it runs code,
and changes with our classes); tolerance for unknown fields (an older driver would drop them
silently from the next manifest: any change of the format is a new version).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack  # type: ignore[import-untyped]

from fulmen.errors import CheckpointError

VERSION = 1
MANIFEST_EVERY = 64
"""A reader of the newest state reads at most this many commits, or that of a claim more."""
INLINE_BYTES = 64 * 1024
"""Data of this size or more belongs in a state file of its own, not into the commit."""
CLAIMS_KEPT = 64
"""So many drivers can't have started while one was between two commits, see `garbage`."""

COMMITS = "commits/"
STATE = "state/"
CALLS = "calls/"
"""Notes of workers about calls that last: no part of any commit."""
_COMMIT_MAGIC = b"FLMC"
_STATE_MAGIC = b"FLMS"
_HEADER_BYTES = 9
STATE_HEADER_BYTES = _HEADER_BYTES
"""Of a state file, before its payload."""
_LONGEST_NAME = 180  # of the part after number and tag; file systems allow 255 for all of it


class Ref(NamedTuple):
    """The place of a journal's payload: a tuple, so that msgpack takes a manifest as it is.

    Attributes:
        commit: The number of the commit that appended it.
        file: The state file with the payload. None: it is in the commit object.
    """

    commit: int
    file: str | None = None


class Update(NamedTuple):
    """A commit's change of one journal of one task: a tuple, so that msgpack takes it as it is.

    First the payloads of commits before `keep_from` are dropped, then `data`, or the payload in
    `file`, is appended; neither is given to drop only.

    Attributes:
        data: The payload, if it is shorter than `INLINE_BYTES`.
        file: The name of the state file that holds it, made with `state_file_name`.
        keep_from: The first commit whose payload is still needed. This commit's own number
            replaces all; 0 keeps all.
    """

    data: bytes | None = None
    file: str | None = None
    keep_from: int = 0


Updates = dict[str, dict[str, Update]]
"""Task key -> journal -> update."""


class Dropped(NamedTuple):
    """Files and commits that nothing refers to any more."""

    files: list[str]
    commits: list[int]


@dataclass
class Manifest:
    """The state after commit `number`. Changed in place by `apply`; read-only for everybody else.

    Attributes:
        number: The newest commit; 0 if there is none.
        tag: The tag of the attempt that became that commit.
        epoch: The epoch of the driver that made it.
        driver: Who that was, as text.
        clock: The batch clock, in seconds.
        topology: The topology that the checkpoint belongs to: its namespace and name, or only its
            name if it has no namespace.
        base: The newest commit that holds a manifest.
        sections: Name -> bytes, each as last set.
        transient: The sections that are valid for commit `number` only.
        tasks: Task key -> journal -> where its payloads are, in the order of their commits.
        claims: The commits by which drivers took over, ascending, the newest `CLAIMS_KEPT`.
        files: Every state file that `tasks` refers to.
        inline: Commit -> how many payloads in it `tasks` refers to; none has 0.
    """

    number: int = 0
    tag: str = ""
    epoch: int = 0
    driver: str = ""
    clock: float = 0.0
    topology: str = ""
    base: int = 0
    sections: dict[str, bytes] = field(default_factory=dict)
    transient: dict[str, bytes] = field(default_factory=dict)
    tasks: dict[str, dict[str, list[Ref]]] = field(default_factory=dict)
    claims: list[int] = field(default_factory=list)
    files: set[str] = field(init=False, default_factory=set, repr=False)
    inline: dict[int, int] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for journals in self.tasks.values():
            for refs in journals.values():
                for number, file in refs:
                    if file is None:
                        self.inline[number] = self.inline.get(number, 0) + 1
                    else:
                        self.files.add(file)

    def apply(self, commit: Commit) -> Dropped:
        """Become the state after the next commit.

        Args:
            commit: The commit; its number must be the next one.

        Returns:
            What nothing refers to any more: state files, and commits whose data is dropped and
            that lie before the newest manifest.
        """
        if commit.number != self.number + 1:
            raise ValueError(f"commit {commit.number} can't follow commit {self.number}")
        dropped = Dropped([], [])
        self._apply_header(commit, dropped)
        self._apply_tasks(commit, dropped)
        for name, data in commit.sections.items():
            if data is None:
                self.sections.pop(name, None)
            else:
                self.sections[name] = data
        self.transient = dict(commit.transient)
        return dropped

    def _apply_header(self, commit: Commit, dropped: Dropped) -> None:
        self.number, self.tag, self.epoch = commit.number, commit.tag, commit.epoch
        self.driver, self.clock, self.topology = commit.driver, commit.clock, commit.topology
        if commit.claim:
            self.claims = [*self.claims[1 - CLAIMS_KEPT :], commit.number]
        if commit.base == commit.number:
            chain = range(max(self.base, 1), commit.number)
            dropped.commits.extend(n for n in chain if n not in self.inline)
            self.base = commit.number

    def _apply_tasks(self, commit: Commit, dropped: Dropped) -> None:
        number, tasks = commit.number, self.tasks
        for task in commit.removed_tasks:
            for refs in tasks.pop(task, {}).values():
                self._drop(refs, dropped)
        appended = 0
        for task, updates in commit.updates.items():
            journals = tasks.setdefault(task, {})
            for journal, update in updates.items():
                refs = journals.setdefault(journal, [])
                self._apply_journal(refs, number, update, dropped)
                appended += update.data is not None
                if not refs:
                    del journals[journal]
            if not journals:
                del tasks[task]
        if appended:
            self.inline[number] = appended

    def _apply_journal(
        self, refs: list[Ref], number: int, update: Update, dropped: Dropped
    ) -> None:
        if refs and refs[0].commit < update.keep_from:
            cut = bisect_left(refs, (update.keep_from,))
            self._drop(refs[:cut], dropped)
            del refs[:cut]
        if update.file is not None:
            refs.append(Ref(number, update.file))
            self.files.add(update.file)
        elif update.data is not None:
            refs.append(Ref(number))

    def _drop(self, refs: Iterable[Ref], dropped: Dropped) -> None:
        for number, file in refs:
            if file is not None:
                self.files.discard(file)
                dropped.files.append(file)
            elif self.inline[number] > 1:
                self.inline[number] -= 1
            else:
                del self.inline[number]
                if number < self.base:  # else it is still in the chain
                    dropped.commits.append(number)


@dataclass(frozen=True)
class Commit:
    """The changes by one attempt of a batch, or by a driver's claim.

    Attributes:
        number: 1 more than that of the commit before.
        tag: Random, of the attempt.
        epoch: The epoch of the driver.
        driver: Who made it, as text: host, process id, when it was started.
        clock: The batch clock, in seconds.
        topology: The topology that the checkpoint belongs to: its namespace and name, or only its
            name if it has no namespace.
        base: The newest commit, up to this one, that holds a manifest.
        claim: A driver takes over with it.
        updates: The changes of each journal of each task.
        sections: Name -> new bytes. None removes; what is absent stays.
        transient: Sections that are valid for this commit only.
        removed_tasks: Tasks whose state goes, before `updates` are applied.
        manifest: The state before this commit, if `base` is this commit. Its transient sections
            are not stored.
    """

    number: int
    tag: str
    epoch: int
    driver: str
    clock: float
    topology: str
    base: int
    claim: bool = False
    updates: Updates = field(default_factory=dict)
    sections: Mapping[str, bytes | None] = field(default_factory=dict)
    transient: Mapping[str, bytes] = field(default_factory=dict)
    removed_tasks: Sequence[str] = ()
    manifest: Manifest | None = None


def encode(commit: Commit) -> bytes:
    """A commit as the bytes of its object.

    Raises:
        ValueError: An update has both data and a file, or a file of another attempt.
    """
    _check_files(commit)
    body = {name: getattr(commit, name) for name in _COMMIT_FIELDS}
    body |= {"sections": dict(commit.sections), "transient": dict(commit.transient)}
    body["removed_tasks"] = list(commit.removed_tasks)
    if commit.manifest is not None:
        body["manifest"] = {name: getattr(commit.manifest, name) for name in _MANIFEST_FIELDS}
    return _framed(_COMMIT_MAGIC, msgpack.packb(body))


def decode(where: str, data: bytes) -> Commit:
    """The commit in an object.

    Raises:
        CheckpointError: It is damaged, or of a newer format.
    """
    body = msgpack.unpackb(_unframed(where, _COMMIT_MAGIC, data))
    body["updates"] = {
        task: {journal: Update(*update) for journal, update in journals.items()}
        for task, journals in body["updates"].items()
    }
    body["removed_tasks"] = tuple(body["removed_tasks"])
    if (manifest := body["manifest"]) is not None:
        manifest["tasks"] = {
            task: {journal: [Ref(*ref) for ref in refs] for journal, refs in journals.items()}
            for task, journals in manifest["tasks"].items()
        }
        body["manifest"] = Manifest(**manifest)
    return Commit(**body)


def encode_state(data: bytes) -> bytes:
    """A payload as the bytes of a state file."""
    return _framed(_STATE_MAGIC, data)


def decode_state(where: str, data: bytes) -> bytes:
    """The payload in a state file. Arguments and errors as for `decode`."""
    return bytes(_unframed(where, _STATE_MAGIC, data))


def commit_key(number: int) -> str:
    """The key of a commit object."""
    return f"{COMMITS}{number:020d}"


def state_file_name(number: int, tag: str, task_key: str, journal: str) -> str:
    """The key of a state file: unique for these four, and sorted by the number first.

    Args:
        number: The commit that it is written for.
        tag: The tag of the attempt: letters and digits.
        task_key: Any text.
        journal: Any text.
    """
    if not re.fullmatch(r"[A-Za-z0-9]{1,32}", tag):
        raise ValueError(f"tag {tag!r} must be 1 to 32 letters and digits")
    name = f"{_escaped(task_key)}.{_escaped(journal)}"
    if len(name) > _LONGEST_NAME:
        # "+" is in no escaped name, so this can't be another one's.
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        name = f"{name[: _LONGEST_NAME - 33]}+{digest}"
    return f"{_state_prefix(number, tag)}{name}"


def number_in(key: str) -> int | None:
    """The commit that a commit object is, or that a state file was written for; else None."""
    match = re.fullmatch(r"commits/(\d{20})|state/(\d{20})\..+", key)
    return int(match[1] or match[2]) if match else None


_COMMIT_FIELDS = tuple(Commit.__dataclass_fields__)
_MANIFEST_FIELDS = tuple(
    name
    for name, about in Manifest.__dataclass_fields__.items()
    if about.init and name != "transient"  # they end with this commit
)


def _state_prefix(number: int, tag: str) -> str:
    return f"{STATE}{number:020d}.{tag}."


def _escaped(text: str) -> str:
    """Letters, digits, `-` and `_` as they are, other characters as `=` and their bytes in hex."""
    return re.sub(
        r"[^A-Za-z0-9_-]", lambda m: "".join(f"={byte:02X}" for byte in m[0].encode()), text
    )


def _check_files(commit: Commit) -> None:
    """Garbage collection relies on a file being referred to once, by the commit in its name."""
    prefix = _state_prefix(commit.number, commit.tag)
    for task, updates in commit.updates.items():
        for journal, (data, file, keep_from) in updates.items():
            if file is not None and (data is not None or not file.startswith(prefix)):
                raise ValueError(
                    f"commit {commit.number}, task {task!r}, journal {journal!r}: file {file!r} "
                    f"must come without data and have a name that starts with {prefix!r}"
                )
            if keep_from > commit.number:
                raise ValueError(
                    f"commit {commit.number}, task {task!r}, journal {journal!r}: keep_from"
                    f" {keep_from} is a later commit"
                )


def _framed(magic: bytes, body: bytes) -> bytes:
    version = bytes([VERSION])
    return b"".join((magic, version, _crc(version, body).to_bytes(4, "big"), body))


def _unframed(where: str, magic: bytes, data: bytes) -> memoryview:
    header, body = data[:_HEADER_BYTES], memoryview(data)[_HEADER_BYTES:]
    version = header[4:5]
    intact = len(header) == _HEADER_BYTES and _crc(version, body).to_bytes(4, "big") == header[5:]
    if not intact or header[:4] != magic:
        raise CheckpointError(
            f"checkpoint {where} is damaged: its {len(data)} bytes are not those that were written"
            f" (magic {header[:4]!r}, should be {magic!r}; checksum"
            f" {'right' if intact else 'wrong'}). Restore the object from a copy of the store, or"
            " start the topology with an empty checkpoint, which loses its state."
        )
    if version[0] > VERSION:
        raise CheckpointError(
            f"checkpoint {where} was written by a newer Fulmen: format {version[0]}, and this one"
            f" reads up to {VERSION}. Run the topology with the newer version."
        )
    return body


def _crc(version: bytes, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(version))
