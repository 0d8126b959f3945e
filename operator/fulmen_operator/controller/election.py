"""Stands for leader for as long as the operator runs, and leads while it is the leader."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from fulmen_operator.cluster.api import CREATE, KINDS, MERGE, NOT_FOUND, ApiServer, CallFailed, Form
from fulmen_operator.cluster.events import event_about
from fulmen_operator.controller.lease import WAIT_SECONDS, Claim, LeaseCandidate, Look, Request
from fulmen_operator.model import Event, Object

TURN_SECONDS: Final = 2.0
"""Seconds between two looks at the lease, or renewals of it."""
CALL_SECONDS: Final = 2.0
"""A call about the lease that takes longer is made again: its connection may be dead."""
RETRY_SECONDS: Final = 1.0
END_SECONDS: Final = 30.0
"""A term that goes on for so long after its end is a mistake of ours."""
LEASE: Final = KINDS["Lease"]

logger = logging.getLogger(__name__)


class Election:
    """One operator among those of an installation.

    Args:
        api: The API server.
        namespace: The lease's namespace.
        lease: The lease's name.
        name: This operator's name, which no other process has or had.
        clock: Seconds that only grow, also while the machine sleeps.
        lead: The work of a leader. It is cancelled when this operator is no longer the leader.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        lease: str,
        name: str,
        clock: Callable[[], float],
        lead: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._namespace, self._lease, self._name = namespace, lease, name
        self._clock = clock
        self._lead = lead
        self._candidate = LeaseCandidate(name)
        self._term: asyncio.Task[None] | None = None
        self._told = ""

    def left(self) -> float:
        """Seconds for which this operator may write."""
        return self._candidate.left(self._clock())

    async def run(self) -> None:
        """Stand for ever. Cancelled, it ends its term, and lets others have the lease at once."""
        try:
            while True:
                has_answers = await self._turn()
                await self._begin_or_end_term()
                if has_answers and self._term is None:
                    self._say(self._why_not())
                await asyncio.sleep(TURN_SECONDS if has_answers else RETRY_SECONDS)
        finally:
            await self._end_term()
            with suppress(CallFailed):
                await self._ask(self._candidate.give_back(self._clock))

    async def _turn(self) -> bool:
        """Try to get or to keep the lease. Returns whether the API server said all there is to."""
        try:
            await self._ask(self._candidate.turn(self._clock))
        except CallFailed as error:
            if not error.is_conflict:  # somebody else was faster
                self._say(f"does not get the lease: {error}", logging.WARNING)
            return False
        return True

    def _why_not(self) -> str:
        holder = self._candidate.holder
        if holder == self._name:
            return f"leads in {WAIT_SECONDS} s: its lease is new, and another one may still write"
        return f"stands by: {holder or 'nobody'} leads"

    async def _begin_or_end_term(self) -> None:
        if self._term is not None and self._term.done():
            await self._term  # a mistake of ours: the operator ends, and is started anew
        if self.left() > 0 and self._term is None:
            self._say("leads now")
            self._term = asyncio.create_task(self._serve())
        elif self.left() <= 0 and self._term is not None:
            self._say("leads no more: its lease was not renewed in time", logging.WARNING)
            await self._end_term()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell("became the leader"))  # which may take long
            await self._lead()

    async def _end_term(self) -> None:
        """Stop the term's work and wait for its end: its knowledge must not leak into the next one.

        Raises:
            RuntimeError: It does not stop. The operator ends, and is started anew: else nobody
                would lead, and nothing would tell so.
        """
        term, self._term = self._term, None
        if term is None:
            return
        term.cancel()
        await asyncio.wait({term}, timeout=END_SECONDS)
        if not term.done():
            raise RuntimeError(f"a term goes on {END_SECONDS:.0f} s after its end")
        if not term.cancelled():
            term.exception()  # it is of no interest any more, and asyncio is not to log it

    async def _ask(self, turn: Generator[Request, Object | None, None]) -> None:
        with suppress(StopIteration):
            request = next(turn)
            while True:
                request = turn.send(await self._answer(request))

    async def _answer(self, request: Request) -> Object | None:
        """The API server's answer. CallFailed: it refused, or could not be reached."""
        path = LEASE.path(self._namespace)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                match request:
                    case Look():
                        return await self._look(f"{path}/{self._lease}")
                    case Claim(version=None):
                        return await self._api.call("POST", path, self._written(request), CREATE)
                    case Claim():
                        place, lease = f"{path}/{self._lease}", self._written(request)
                        return await self._api.call("PATCH", place, lease, MERGE, Form.MERGE)
        except TimeoutError as error:
            raise CallFailed(0, f"no answer within {CALL_SECONDS:.0f} s", path) from error

    async def _look(self, place: str) -> Object | None:
        try:
            return await self._api.call("GET", place)
        except CallFailed as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def _written(self, claim: Claim) -> Object:
        """The lease as it is to be. Its times are for people: nothing depends on them."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        spec: dict[str, Any] = {
            "holderIdentity": claim.holder or None,
            "leaseDurationSeconds": WAIT_SECONDS,
            "leaseTransitions": claim.transitions,
            "renewTime": now,
        }
        if claim.is_new:
            spec["acquireTime"] = now
        meta = {"name": self._lease, "namespace": self._namespace}
        if claim.version is not None:
            meta["resourceVersion"] = claim.version
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": meta, "spec": spec}

    async def _tell(self, what: str) -> None:
        """An event of the lease's, for those who look there."""
        about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": self._lease}
        event = Event("Normal", "LeaderElection", f"{self._name} {what}")
        body = event_about({**about, "namespace": self._namespace}, event, datetime.now(UTC))
        try:
            await self._api.call("POST", KINDS["Event"].path(self._namespace), body)
        except CallFailed as error:
            logger.warning("no event: %s", error)

    def _say(self, text: str, level: int = logging.INFO) -> None:
        """Log what has changed, once."""
        if text != self._told:
            self._told = text
            logger.log(level, "%s %s", self._name, text)
