"""Looks at topologies, one after another, for as long as the operator runs."""

import asyncio
import logging
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import CallFailed, Overtaken
from fulmen_operator.controller.metered import Metered
from fulmen_operator.controller.queue import Queue
from fulmen_operator.controller.starts import Starts, group_of
from fulmen_operator.metrics import RECONCILES, SECONDS, show
from fulmen_operator.model import (
    Decision,
    DecisionRefusal,
    Event,
    Key,
    Observed,
    StartDriver,
    Trial,
)
from fulmen_operator.ownership import InTheWay, sentence
from fulmen_operator.reasons import Reason
from fulmen_operator.reconcile.decide import decide
from fulmen_operator.settings import Settings

logger = logging.getLogger(__name__)

RECONCILE_SECONDS: Final = 240
"""A reconcile is cancelled after so many seconds: the API server answers too slowly."""
GOING_SECONDS: Final = 60
"""Seconds until the next look at a topology whose namespace is being deleted."""
IN_THE_WAY_SECONDS: Final = 30
"""Seconds until the next look at an object of others that is in the way: it is not watched."""
PASSING_SECONDS: Final = 2
"""Seconds until the next look at an earlier topology's object, which goes by itself."""
FIGURE: Final = "lastBatch"
FIGURES_SECONDS: Final = 60
"""The least seconds between two statuses that differ in nothing but this field."""
TRIAL_SECONDS: Final = 60
"""Seconds for which the result of a dry run holds."""
AGAIN_SECONDS: Final = 0.1
"""Seconds until the next look at a topology that changed during the look."""
PROBE_SECONDS: Final = 10
"""Seconds for which the answer why a worker is missing holds."""


@dataclass
class Memory:
    """Notes from one reconcile for the next. All of it may be lost.

    Attributes:
        refusals: Why the last decision could not be carried out, by topology.
        trials: Results of dry runs, by topology: hash, refusal, and time.
        probes: Why workers are missing, by topology, and when that was asked.
        written: When statuses were last written, by topology.
        starts: The drivers that may start.
    """

    refusals: dict[Key, DecisionRefusal] = field(default_factory=dict)
    trials: dict[Key, tuple[str, str, float]] = field(default_factory=dict)
    probes: dict[Key, tuple[str, float]] = field(default_factory=dict)
    written: dict[Key, float] = field(default_factory=dict)
    starts: Starts = field(default_factory=lambda: Starts(monotonic))

    def forget(self, key: Key) -> None:
        """A topology is gone."""
        self.refusals.pop(key, None)
        self.trials.pop(key, None)
        self.probes.pop(key, None)
        self.written.pop(key, None)
        self.starts.forget(key)


@dataclass(frozen=True)
class TopologyGone:
    """The topology no longer exists."""


@dataclass(frozen=True)
class Again:
    """The decision no longer holds: look again soon. `why`: the change meanwhile."""

    why: str


@dataclass(frozen=True)
class DecisionDone:
    """The decision is carried out, as far as possible.

    Attributes:
        again_in: Seconds after which to look again although nothing happened, if so.
    """

    again_in: float | None = None


Reconciled = TopologyGone | Again | DecisionDone


async def reconcile(key: Key, access: Access, settings: Settings, memory: Memory) -> Reconciled:
    """Take one topology a step nearer to its spec.

    Raises:
        CallFailed: Something could not be done; the next reconcile goes on from there.
    """
    try:
        return await _step(key, access, settings, memory)
    except Overtaken as overtaken:
        return Again(str(overtaken))
    except CallFailed as error:
        if error.is_conflict:
            return Again(str(error))
        raise


async def _step(key: Key, access: Access, settings: Settings, memory: Memory) -> Reconciled:
    seen = await access.observe(key)
    if seen is None:
        memory.forget(key)
        show(key.namespace, key.name, None)
        return TopologyGone()
    seen = replace(seen, refusal=memory.refusals.get(key), trial=_known_trial(key, memory))
    decision = decide(seen, settings)
    if decision.trial is not None:
        refused = await access.try_out(seen, decision.trial)
        memory.trials[key] = (decision.trial.hash, refused, monotonic())
        seen = replace(seen, trial=(decision.trial.hash, refused))
        decision = decide(seen, settings)
    if decision.probe is not None:
        seen = replace(seen, missing=await _probed(key, seen, decision.probe, access, memory))
        decision = decide(seen, settings)
    else:
        memory.probes.pop(key, None)
    wait = _wait_to_start(key, seen, decision, access, settings, memory)
    if wait is not None:
        decision = replace(decide(replace(seen, others_start=True), settings), again_in=wait)
    show(key.namespace, key.name, decision.status or seen.topology.get("status", {}))
    wait = _wait_with_figures(key, seen, decision, memory)
    if wait is not None:
        decision = replace(decision, status=None)
    done = await _carry_out(key, seen, decision, access, memory)
    if isinstance(done, Again):
        return done
    waits = [w for w in (wait, done.again_in, decision.again_in) if w is not None]
    return DecisionDone(min(waits, default=None))


def _wait_to_start(
    key: Key, seen: Observed, decision: Decision, access: Access, settings: Settings, memory: Memory
) -> float | None:
    """Seconds that a driver has to wait before it may start; None: it may, or none is to start."""
    if not any(isinstance(action, StartDriver) for action in decision.actions):
        memory.starts.forget(key)
        return None
    pods, group = access.pods_in(key.namespace), group_of(seen.topology)
    return memory.starts.seconds_to_wait(key, pods, settings.starts_per_node, group, seen.now)


async def _probed(key: Key, seen: Observed, probe: Trial, access: Access, memory: Memory) -> str:
    """Why a worker is missing, as far as the API server can tell; asked only now and then."""
    known = memory.probes.get(key)
    if known is None or monotonic() - known[1] > PROBE_SECONDS:
        known = await access.try_beside(seen, probe), monotonic()
        memory.probes[key] = known
    return known[0]


def _wait_with_figures(
    key: Key, seen: Observed, decision: Decision, memory: Memory
) -> float | None:
    """Seconds after which to write a status that differs in nothing but the batch's number.

    That changes all the time, and each write is told to everybody who watches topologies.
    """
    old = seen.topology.get("status") or {}
    if decision.status is None or decision.actions or not old.get(FIGURE):
        return None
    if {**decision.status, FIGURE: 0} != {**old, FIGURE: 0}:
        return None
    left = memory.written.get(key, -FIGURES_SECONDS) + FIGURES_SECONDS - monotonic()
    return left if left > 0 else None


async def _carry_out(
    key: Key, seen: Observed, decision: Decision, access: Access, memory: Memory
) -> Again | DecisionDone:
    if decision.status is not None:  # first: an operator that dies now leaves a trace
        await access.write_status(seen, decision.status)
        memory.written[key] = monotonic()
    for event in decision.events:
        logger.info("%s: %s: %s", key, event.reason, event.message)
        await _tell(seen, event, access)
    obstacles: list[InTheWay] = []
    try:
        for action in decision.actions:
            if obstacles and isinstance(action, StartDriver):
                continue  # it would run with what is somebody else's
            try:
                await access.carry_out(seen, action)
            except InTheWay as obstacle:
                obstacles.append(obstacle)
    except CallFailed as error:
        if error.is_refusal and not error.is_namespace_going:
            memory.refusals[key] = DecisionRefusal(Reason.REFUSED, error.message)
        raise
    if obstacles:
        return _hindered(key, obstacles, memory)
    if memory.refusals.pop(key, None) is not None:  # the status says that it is refused
        return Again("what was refused is accepted now")
    return DecisionDone()


def _hindered(key: Key, obstacles: list[InTheWay], memory: Memory) -> DecisionDone:
    """Remember what is in the way, and look later whether it still is."""
    passing = all(obstacle.passing for obstacle in obstacles)
    reason = Reason.EARLIER_TOPOLOGY_ENDS if passing else Reason.OBJECT_IN_THE_WAY
    message = sentence(obstacles, key.namespace, key.name)
    refusal = DecisionRefusal(reason, message, lasting=not passing)
    is_news = memory.refusals.get(key) != refusal
    memory.refusals[key] = refusal
    if is_news:
        return DecisionDone(AGAIN_SECONDS)  # the next reconcile says it
    return DecisionDone(PASSING_SECONDS if passing else IN_THE_WAY_SECONDS)


async def _tell(seen: Observed, event: Event, access: Access) -> None:
    try:
        await access.tell(seen, event)
    except CallFailed as error:
        level = logging.DEBUG if error.is_namespace_going else logging.WARNING
        logger.log(level, "%s/%s: no event: %s", seen.namespace, seen.name, error)


def _known_trial(key: Key, memory: Memory) -> tuple[str, str] | None:
    known = memory.trials.get(key)
    if known is None or monotonic() - known[2] > TRIAL_SECONDS:
        return None
    return known[0], known[1]


async def work(queue: Queue[Key], access: Access, settings: Settings, memory: Memory) -> None:
    """Reconcile what is due, for ever. No failure of one topology's ends it."""
    while True:
        key = await queue.get()
        started = monotonic()
        one = Metered(_one(key, queue, access, settings, memory))
        result = await one
        queue.charge(key, one.seconds)
        RECONCILES.labels(result).inc()
        SECONDS.observe(monotonic() - started)
        await asyncio.sleep(0)  # many in a row may cost no call, and the lease has to be renewed


async def _one(
    key: Key, queue: Queue[Key], access: Access, settings: Settings, memory: Memory
) -> str:
    try:
        async with asyncio.timeout(RECONCILE_SECONDS):
            reconciled = await reconcile(key, access, settings, memory)
    except CallFailed as error:
        if error.is_namespace_going:
            queue.done(key, GOING_SECONDS)
            return "gone"
        logger.warning("%s: %s. It is tried again in %.0f s", key, error, queue.failed(key))
        return "error"
    except TimeoutError:
        logger.warning("%s: not reconciled within %d s. It is tried again", key, RECONCILE_SECONDS)
        queue.failed(key)
        return "error"
    except Exception:  # a mistake of ours about one topology must not stop the others
        logger.exception("%s: a mistake in the operator", key)
        queue.failed(key)
        return "error"
    match reconciled:
        case TopologyGone():
            queue.forget(key)
            return "gone"
        case Again(why):
            logger.debug("%s is reconciled again: %s", key, why)
            queue.done(key, AGAIN_SECONDS)
            return "conflict"
        case DecisionDone(again_in):
            queue.done(key, again_in)
            return "done"
