"""The driver's side of the checkpoint: one commit after another, by one driver at a time.

Guarantees:
    - Commits are numbered without gaps, each is made by exactly one driver, and each builds on the
      one before. A commit that was acknowledged is part of every later state.
    - Of two drivers the one that claimed last goes on. The other finds its next number taken and
      gets `Fenced`, from that call and all later ones.
    - A commit whose outcome is unknown can be made again, and is then made once.

The fence is the put of `commits/N`: put-if-absent, by a driver that has seen commit N-1. It needs
no clock, unless a driver sleeps for so long that the commit it was fenced by has been deleted; see
`garbage`. A claim is a commit, too: the next number, with a higher epoch and a manifest.

Rejected: a lease (needs clocks, and a paused driver still writes after it ran out); a lock object
that is overwritten (what is committed must itself be what is exclusive).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence

from fulmen.checkpoint.garbage import LIMITS, SURE_SECONDS, Garbage, LogLimits
from fulmen.checkpoint.manifest import Commit, Links, Manifest, Updates
from fulmen.checkpoint.names import commit_key
from fulmen.checkpoint.payloads import newest_number, read_commit, read_newest
from fulmen.checkpoint.record import encode
from fulmen.checkpoint.savepoints.pins import PINS, pins_in
from fulmen.checkpoint.store import Store
from fulmen.errors import (
    AlreadyExists,
    CheckpointError,
    CheckpointMismatch,
    Denied,
    Fenced,
    NotFound,
)


def new_tag() -> str:
    """A random tag for an attempt."""
    return secrets.token_hex(8)


def uptime() -> float:
    """Seconds since some moment, those included in which the machine slept."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class CommitLog:
    """The commits of one topology, seen by one driver.

    All methods but `collect` belong to one thread.

    Attributes:
        bytes_written: The size of all commits that were made here, claims left out.
    """

    def __init__(
        self,
        store: Store,
        topology: str,
        driver: str,
        *,
        clock: Callable[[], float] = uptime,
        tags: Callable[[], str] = new_tag,
        limits: LogLimits = LIMITS,
        takes_over: str | None = None,
    ) -> None:
        """Find the newest commit. Nothing is written until `claim`.

        Args:
            store: The checkpoint of this topology and no other.
            topology: Whose checkpoint it is: the topology's namespace and name.
            driver: Who this is, for the messages of others: host, process id, when it started.
            clock: Seconds that go on while the machine sleeps.
            tags: Makes the tags of claims.
            limits: How often it does what is not needed for each commit.
            takes_over: Another topology whose checkpoint this one may take over.

        Raises:
            CheckpointMismatch: The checkpoint is another topology's.
            CheckpointError: It is damaged, or of a newer format.
            Unreachable: The store does not answer.
        """
        self._store = store
        self._topology = topology
        self._takes_over = takes_over
        self._driver = driver
        self._clock = clock
        self._tags = tags
        self._limits = limits
        self._manifest = Manifest()
        self._garbage: Garbage | None = None  # from the claim on
        self._epoch = 0
        self._sure_at = 0.0  # then the next number was free, and this driver the newest
        self._doubtful: str | None = None  # the tag of a commit whose outcome is unknown
        self._fenced: Fenced | None = None
        self.bytes_written = 0
        self._reload()

    @property
    def manifest(self) -> Manifest:
        """The newest state known here. Read-only; every commit changes it in place."""
        return self._manifest

    @property
    def epoch(self) -> int:
        """The epoch of this driver, from `claim` on; 0 before."""
        return self._epoch

    def claim(self) -> Commit:
        """Take over: from now on the driver before can't commit. Changes nothing else.

        Transient sections live on: nobody knows whether the driver before has acted on them.

        Returns:
            The claim. Its tag is the newest now.

        Raises:
            Unreachable: Unknown whether it was claimed, or not allowed any more. Claim again.
            Denied: The right to write is missing, and nothing was ever committed there.
            Fenced: Another driver has taken over from this one, just now or before.
            CheckpointError: Another driver commits so fast that its numbers are always taken; or
                this one has claimed before.
        """
        if self._fenced is not None:
            raise self._fenced
        if self._garbage is not None:
            raise CheckpointError(
                f"checkpoint {self._store.uri}: driver {self._driver!r} has claimed it already."
                " Open it anew to claim it once more."
            )
        for _ in range(self._limits.claim_tries):
            claim = self._draft_claim()
            started = self._clock()
            try:
                self._store.put(commit_key(claim.number), encode(claim))
            except AlreadyExists:
                self._catch_up()
                continue
            except Denied as error:
                if self._manifest.number:  # a driver before could write there
                    raise error.as_outage() from error
                raise
            self._manifest.apply(claim)
            if newest_number(self._store) > claim.number:
                if self._is_followed(claim):  # by a driver that started after this one
                    raise self._fence(claim.number + 1)
                self._reload()  # it only filled a gap that was collected
                continue
            self._epoch = claim.epoch
            self._sure_at = started
            self._garbage = Garbage(self._store, self._manifest, self._clock, self._limits)
            return claim
        raise CheckpointError(
            f"checkpoint {self._store.uri}: driver {self._driver!r} found every number up to"
            f" {self._manifest.number} taken by driver {self._manifest.driver!r} (epoch"
            f" {self._manifest.epoch}), which keeps committing. Stop that driver first."
        )

    def draft(  # noqa: PLR0913 (the parts of a commit)
        self,
        *,
        tag: str,
        clock: float,
        updates: Updates | None = None,
        sections: Mapping[str, bytes | None] | None = None,
        transient: Mapping[str, bytes] | None = None,
        removed_tasks: Sequence[str] = (),
        links: Links | None = None,
        lender: Manifest | None = None,
        full: bool = False,
    ) -> Commit:
        """The next commit, to be made with `commit`. See `Commit` for the other arguments.

        Args:
            tag: Of the attempt.
            clock: The batch clock.
            updates: Of journals.
            sections: That change.
            transient: Of this commit.
            removed_tasks: Whose state goes.
            links: To what the state before refers to.
            lender: A pinned state: links may be to what this refers to instead.
            full: Whether it is to hold a manifest in any case, so that it can be a pin's.

        Raises:
            ValueError: A link is to what nothing refers to any more.
        """
        number = self._manifest.number + 1
        self._check_links(links or {}, lender)
        full = full or number >= self._manifest.base + self._limits.manifest_every
        return Commit(
            number=number,
            tag=tag,
            epoch=self._epoch,
            driver=self._driver,
            clock=clock,
            topology=self._topology,
            base=number if full else self._manifest.base,
            updates=updates or {},
            sections=sections or {},
            transient=transient or {},
            removed_tasks=removed_tasks,
            links=links or {},
            manifest=self._manifest if full else None,
        )

    def commit(self, commit: Commit) -> None:
        """Make a commit: durable and final when this returns, and part of `manifest`.

        Args:
            commit: From `draft`. After an error other than `Fenced` only the same one is accepted,
                since it may have been made; or open and claim anew.

        Raises:
            Fenced: Another driver has taken over. This one must stop.
            Unreachable: It may or may not have been made. Commit it again.
        """
        garbage = self._owned()
        self._check_is_next(commit)
        data = encode(commit)
        started = self._clock()
        self._doubtful = commit.tag
        try:
            self._store.put(commit_key(commit.number), data)
        except AlreadyExists:
            if self._tag_of(commit.number) != commit.tag:
                raise self._fence(commit.number) from None
        if self._clock() - self._sure_at > SURE_SECONDS:  # see garbage.py on claims
            self._check_is_newest(commit.number)
        self._doubtful = None
        self._sure_at = started
        self.bytes_written += len(data)
        garbage.apply(commit)

    def check(self) -> None:
        """See whether this driver is still the newest. For one that has nothing to commit.

        Raises:
            Fenced: It is not, and must stop.
            Unreachable: The store does not answer.
        """
        self._owned()
        if self._doubtful is None:
            started = self._clock()
            self._check_is_newest(self._manifest.number)
            self._sure_at = started

    def collect(self) -> int:
        """Delete what is no longer needed; returns how many objects. For a thread of its own.

        Raises:
            CheckpointError: The store fails. Nothing is lost; collect again later.
        """
        garbage = self._owned()
        try:
            return garbage.collect()
        except CheckpointError:
            # Where another driver has taken over, it may have deleted what a pin known here needs.
            if newest_number(self._store) > self._manifest.number:
                return 0
            raise

    def _draft_claim(self) -> Commit:
        number = self._manifest.number + 1
        return Commit(
            number=number,
            tag=self._tags(),
            epoch=self._manifest.epoch + 1,
            driver=self._driver,
            clock=self._manifest.clock,
            topology=self._topology,
            base=number,
            claim=True,
            transient=self._manifest.transient,
            manifest=self._manifest,
        )

    def _owned(self) -> Garbage:
        if self._fenced is not None:
            raise self._fenced
        if self._garbage is None:
            raise CheckpointError(
                f"checkpoint {self._store.uri}: driver {self._driver!r} has not claimed it."
                " Call claim() first."
            )
        return self._garbage

    def _check_links(self, links: Links, lender: Manifest | None) -> None:
        """Collecting garbage relies on it: what nothing refers to is needed by no later commit."""
        pins = pins_in(self._manifest.sections.get(PINS))
        if lender is not None and lender.number not in {pin.number for pin in pins.values()}:
            raise ValueError(f"the state of commit {lender.number} is not pinned")
        owners = [self._manifest, lender or self._manifest]
        for task, journals in links.items():
            for journal, refs in journals.items():
                for ref in refs:
                    if not any(owner.refers_to(ref) for owner in owners):
                        raise ValueError(
                            f"task {task!r}, journal {journal!r}: {ref} links to what commit"
                            f" {self._manifest.number} does not refer to"
                        )

    def _check_is_next(self, commit: Commit) -> None:
        number = self._manifest.number + 1
        if (commit.number, commit.epoch) != (number, self._epoch):
            raise ValueError(
                f"commit {commit.number} of epoch {commit.epoch} is not the next one, which is"
                f" {number} of epoch {self._epoch}"
            )
        if self._doubtful not in (None, commit.tag):
            raise ValueError(
                f"commit {number} was tried with tag {self._doubtful!r} and may have been made:"
                f" make the same one again, not one with tag {commit.tag!r}"
            )

    def _check_is_newest(self, number: int) -> None:
        if newest_number(self._store) > number:
            raise self._fence(number + 1)

    def _fence(self, number: int) -> Fenced:
        """The error that says who made commit `number`, or the newest one if that is gone."""
        try:
            holder = read_commit(self._store, number)
        except NotFound:
            holder = read_commit(self._store, newest_number(self._store))
        self._fenced = Fenced(
            self._store.uri, number, self._driver, self._epoch, holder.driver, holder.epoch
        )
        return self._fenced

    def _is_followed(self, claim: Commit) -> bool:
        """Whether another claim builds on this one."""
        try:
            follower = read_commit(self._store, claim.number + 1)
        except NotFound:
            return False
        return follower.claim and follower.epoch == claim.epoch + 1

    def _tag_of(self, number: int) -> str | None:
        try:
            return read_commit(self._store, number).tag
        except NotFound:  # made by another driver, and collected since
            return None

    def _catch_up(self) -> None:
        """Learn of the commit that took the next number."""
        try:
            follower = read_commit(self._store, self._manifest.number + 1)
        except NotFound:
            self._reload()
            return
        if self._is_next(follower):
            self._manifest.apply(follower)
            self._check_topology()
        else:
            self._reload()

    def _is_next(self, commit: Commit) -> bool:
        """Whether a commit was made upon the state known here.

        It was not if a claim was, which only filled a gap that was collected: then this state lacks
        what the commit had that was there first.
        """
        if commit.claim:
            return commit.epoch == self._manifest.epoch + 1
        return (commit.epoch, commit.driver) == (self._manifest.epoch, self._manifest.driver)

    def _reload(self) -> None:
        self._manifest = read_newest(self._store)
        self._check_topology()

    def _check_topology(self) -> None:
        found = self._manifest.topology
        if self._manifest.number and found not in (self._topology, self._takes_over):
            raise CheckpointMismatch(
                f"checkpoint {self._store.uri} is that of topology {found!r}, not of"
                f" {self._topology!r}. Give each topology a checkpoint of its own"
                " (spec.checkpoint); or, to go on from the state of that one, which then has none"
                f" any more, set spec.checkpoint.takeOver to {found!r}."
            )
