"""Savepoints that a running driver makes and deletes.

Who wants one puts an object below `savepoints/asked/` in the checkpoint: so it takes no more than
the right to write there, on one machine and on a cluster. The driver looks there now and then, does
it with its next commit, and removes the object. Automatic ones follow the spec.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fulmen.checkpoint import Manifest, Store
from fulmen.checkpoint.savepoints.pins import PINS, Pin, Pins, check_name, pins_in, pins_section
from fulmen.errors import AlreadyExists, CheckpointError, FulmenError, NotFound, Unreachable
from fulmen.topology.resource.spec.savepoints import Savepoints as Policy

ASKED = "savepoints/asked/"
"""Objects with wishes, each named after its savepoint."""
AUTOMATIC = "auto-"
"""What the names of automatic savepoints begin with."""
LOOK_SECONDS = 5.0
CODE = "code"
"""The section that says with which code of the author the state was made."""


@dataclass(frozen=True)
class Wish:
    """A savepoint to be made, or deleted.

    Attributes:
        name: Of the savepoint.
        deletes: Whether it is to go.
        why: What it is for.
        by: Who wants it.
    """

    name: str
    deletes: bool = False
    why: str = ""
    by: str = ""

    @property
    def key(self) -> str:
        """The key of the object that asks for it."""
        return f"{ASKED}{self.name}"

    def ask(self, store: Store) -> bool:
        """Ask the driver that runs. Returns whether nobody has asked for this name before."""
        about = {"deletes": self.deletes, "why": self.why, "by": self.by}
        try:
            store.put(self.key, json.dumps(about).encode())
        except AlreadyExists:
            return False
        return True


def asked_in(store: Store) -> tuple[list[Wish], str]:
    """What is asked for and has not been done yet; and what is wrong with the rest, if so."""
    wishes, wrong = [], []
    for key in store.list(ASKED):
        try:
            data = store.get(key)
        except NotFound:  # withdrawn
            continue
        try:
            wishes.append(_wish(key, data))
        except (CheckpointError, ValueError, TypeError) as error:
            wrong.append(f"{key!r} in the checkpoint asks for no savepoint: {error}. Delete it")
    return wishes, "; ".join(wrong)


def _wish(key: str, data: bytes) -> Wish:
    name, about = key.removeprefix(ASKED), json.loads(data)
    check_name(name)
    return Wish(name, **about)


def granted(pins: Pins, wishes: list[Wish], number: int, now: float) -> dict[str, Pin]:
    """The pins after these wishes. One that is there already stays as it is.

    Args:
        pins: Those that are there.
        wishes: In their order.
        number: Of the commit that grants them.
        now: In seconds since 1970.
    """
    after = dict(pins)
    for wish in wishes:
        if wish.deletes:
            after.pop(wish.name, None)
        else:
            after.setdefault(wish.name, Pin(number, now, wish.why, wish.by))
    return after


def code_digest(classes: Iterable[str], folder: Path | None) -> bytes:
    """A digest of the modules that have these classes, and of all that are in a folder."""
    files = set() if folder is None else set(folder.rglob("*.py"))
    for name in classes:
        module = name
        while module and module not in sys.modules:
            module = module.rpartition(".")[0]
        if file := getattr(sys.modules.get(module), "__file__", None):
            files.add(Path(file))
    # Paths differ between one pod and the next.
    contents = sorted(hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(contents)).hexdigest().encode()


def automatic(
    pins: Pins,
    policy: Policy | None,
    number: int,
    now: float,
    *,
    began: float | None = None,
    is_new_code: bool = False,
) -> list[Wish]:
    """What the policy wants now: a new savepoint, and the oldest automatic ones gone.

    Args:
        pins: Those that are there.
        policy: Of automatic savepoints.
        number: Of the newest commit. If a savepoint was made with it, nothing has happened since.
        now: In seconds since 1970.
        began: When the checkpoint was empty; None: longer ago than is known.
        is_new_code: Whether the state was made with other code than what runs now.
    """
    if policy is None or any(pin.commit == number for pin in pins.values()):
        return []
    own = sorted((n for n in pins if n.startswith(AUTOMATIC)), key=lambda name: pins[name].time)
    last = pins[own[-1]].time if own else began
    if last is not None and not is_new_code and now < last + policy.seconds:
        return []
    why = "before a change of the code" if is_new_code else "automatic"
    name = f"{AUTOMATIC}{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}"
    if name in pins:  # of the same second
        name = f"{name}-{number}"
    surplus = own[: max(len(own) + 1 - policy.keep, 0)]
    return [Wish(name, why=why), *(Wish(gone, deletes=True) for gone in surplus)]


class SavepointKeeper:
    """Does what was asked for, and what the policy wants, with a driver's commits.

    `look` is called between batches; it reads the store in a thread of its own.

    Attributes:
        policy: Of automatic savepoints. None: there are none.
        trouble: Why something that is asked for is not done; "": all is.
    """

    def __init__(
        self,
        store: Store,
        note: Callable[[str], None],
        wall: Callable[[], float],
        policy: Policy | None = None,
        code: bytes = b"",
    ) -> None:
        """Begin. Nothing is read yet. `code`: the digest of the code that runs; empty: unknown."""
        self.policy, self._code, self.trouble = policy, code, ""
        self._store, self._note, self._wall = store, note, wall
        self._asked: list[Wish] = []
        self._read: list[list[Wish]] = []  # what the thread has found, if it has
        self._granting: list[Wish] = []
        self._thread: threading.Thread | None = None
        self._looked: float | None = None
        self._began: float | None = None

    def look(self, manifest: Manifest, steady: float) -> bool:
        """Look now and then whether something is asked for. Returns whether a commit is due."""
        if self._looked is None:
            self._looked = steady
            self._began = None if manifest.tasks else self._wall()
        is_at_it = self._thread is not None and self._thread.is_alive()
        if steady - self._looked >= LOOK_SECONDS and not is_at_it:
            self._looked = steady
            self._thread = threading.Thread(
                target=self._find, args=[self._read], name="fulmen-savepoints", daemon=True
            )
            self._thread.start()
        if self._read:
            self._asked = self._read.pop()
        return bool(self._asked) or bool(self._automatic(manifest))

    def _find(self, read: list[list[Wish]]) -> None:
        try:
            wishes, trouble = asked_in(self._store)
            read.append(wishes)
        except Unreachable:  # those who need the store more tell it; whoever asks waits
            return
        except FulmenError as error:
            trouble = f"savepoints that are asked for can't be looked for: {error}"
        if trouble and trouble != self.trouble:
            self._note(trouble)
        self.trouble = trouble

    def section(self, manifest: Manifest) -> Mapping[str, bytes | None]:
        """The section of the next commit that does it all; empty if nothing is to be done."""
        now, pins = self._wall(), _pins(manifest)
        self._granting = [*self._asked, *self._automatic(manifest)]
        code = {CODE: self._code} if self._is_new_code(manifest) else {}
        if not self._granting:
            return code
        pinned = granted(pins, self._granting, manifest.number + 1, now)
        return {PINS: pins_section(pinned), **code}

    def _is_new_code(self, manifest: Manifest) -> bool:
        return bool(self._code) and manifest.sections.get(CODE) != self._code

    def _automatic(self, manifest: Manifest) -> list[Wish]:
        is_new = self._is_new_code(manifest) and CODE in manifest.sections
        return automatic(
            _pins(manifest),
            self.policy,
            manifest.number,
            self._wall(),
            began=self._began,
            is_new_code=is_new,
        )

    def committed(self, number: int) -> None:
        """The commit was made: tell, and take what was asked for out of the store."""
        for wish in self._granting:
            done = "deleted" if wish.deletes else f"made: the state of commit {number - 1} stays"
            self._note(f"savepoint {wish.name!r} is {done}")
        answered = [wish.key for wish in self._granting if wish in self._asked]
        # what is being read now may be of before this commit
        self._asked, self._granting, self._read = [], [], []
        if answered:
            try:
                self._store.delete(answered)
            except FulmenError as error:  # it is done again, which changes nothing
                self._note(f"savepoints that were asked for: {error}")


def _pins(manifest: Manifest) -> dict[str, Pin]:
    return pins_in(manifest.sections.get(PINS))
