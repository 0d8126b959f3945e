"""How commits add up to a manifest: where everything is that a checkpoint holds.

Payloads are referred to, and a reference can move from one task to another, or be had by several:
so state changes hands without being read. References are counted. An object that none refers to any
more is garbage, for ever: no later commit refers to it again, since links are only to what a commit
before still refers to, or what a pin keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fulmen.checkpoint.names import commit_key

CLAIMS_KEPT = 64
"""So many drivers can't have started while one was between two commits, see `garbage`."""


class Ref(NamedTuple):
    """The place of a journal's payload: a tuple, so that msgpack takes a manifest as it is.

    Several journals, of several tasks, may refer to one payload. It is kept until none does.

    Attributes:
        commit: The number of the commit that appended it.
        place: The state file with the payload; or the task and the journal under which the object
            of that commit holds it.
    """

    commit: int
    place: str | tuple[str, str]

    @property
    def file(self) -> str | None:
        """The state file with the payload. None: it is in the commit object."""
        return self.place if isinstance(self.place, str) else None

    @property
    def object(self) -> str:
        """The key of the object that holds the payload."""
        return self.place if isinstance(self.place, str) else commit_key(self.commit)


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
Links = Mapping[str, Mapping[str, Sequence[Ref]]]
"""Task key -> journal -> payloads that are there already, and are appended to it."""


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
        files: State file -> how often `tasks` refers to it; none has 0.
        inline: Commit -> how often `tasks` refers to payloads in it; none has 0.
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
    files: dict[str, int] = field(init=False, default_factory=dict, repr=False)
    inline: dict[int, int] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for journals in self.tasks.values():
            for refs in journals.values():
                self._count(refs)

    @property
    def objects(self) -> set[str]:
        """The keys of all objects that `tasks` refers to."""
        return {*self.files, *map(commit_key, self.inline)}

    def refers_to(self, ref: Ref) -> bool:
        """Whether `tasks` refers to that object, so that it is kept."""
        return ref.place in self.files if ref.file else ref.commit in self.inline

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
        tasks = self.tasks
        for journals in commit.links.values():  # first: what moves is needed all the time
            for refs in journals.values():
                self._count(refs)
        for task in commit.removed_tasks:
            for gone in tasks.pop(task, {}).values():
                self._drop(gone, dropped)
        for task, linked in commit.links.items():
            for journal, refs in linked.items():
                tasks.setdefault(task, {}).setdefault(journal, []).extend(refs)
        self._append(commit, dropped)

    def _append(self, commit: Commit, dropped: Dropped) -> None:
        number, tasks, appended = commit.number, self.tasks, 0
        for task, updates in commit.updates.items():
            own = tasks.setdefault(task, {})
            for journal, update in updates.items():
                refs = own.setdefault(journal, [])
                if refs and update.keep_from:
                    self._drop_before(update.keep_from, refs, dropped)
                if update.file is not None:
                    refs.append(Ref(number, update.file))
                    self.files[update.file] = 1
                elif update.data is not None:
                    refs.append(Ref(number, (task, journal)))
                    appended += 1
                if not refs:
                    del own[journal]
            if not own:
                del tasks[task]
        if appended:
            self.inline[number] = appended

    def _drop_before(self, keep_from: int, refs: list[Ref], dropped: Dropped) -> None:
        kept = [ref for ref in refs if ref.commit >= keep_from]
        if len(kept) < len(refs):
            self._drop([ref for ref in refs if ref.commit < keep_from], dropped)
            refs[:] = kept

    def _count(self, refs: Iterable[Ref]) -> None:
        for number, place in refs:
            if isinstance(place, str):
                self.files[place] = self.files.get(place, 0) + 1
            else:
                self.inline[number] = self.inline.get(number, 0) + 1

    def _drop(self, refs: Iterable[Ref], dropped: Dropped) -> None:
        for number, place in refs:
            if isinstance(place, str):
                self.files[place] -= 1
                if not self.files[place]:
                    del self.files[place]
                    dropped.files.append(place)
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
        removed_tasks: Tasks whose state goes, before `links` and `updates` are applied.
        links: Payloads of other commits that journals get, before `updates` are applied.
        manifest: The state before this commit, if `base` is this commit.
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
    links: Links = field(default_factory=dict)
    manifest: Manifest | None = None
