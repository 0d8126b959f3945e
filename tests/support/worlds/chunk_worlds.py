"""Random topologies of `chunk_parts`, run in several ways: what comes of them must be the same."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from fulmen import TopologyBuilder
from fulmen.checkpoint import load_many
from fulmen.engine.driver.driver import Silent, Stop
from fulmen.engine.driver.taps.wanted_tap import WantedTap
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.engine.protocol.sampling import Sampling
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.testing import ManualClock
from support.lives.chaos import Chaos, DriverDied
from support.runs.engine_runs import Steady, make_driver, new_store
from support.worlds.chunk_list_parts import Columns, Lists
from support.worlds.chunk_parts import (
    FIELDS,
    LOG,
    WHERE,
    Acked,
    Anchors,
    BatchScriptSpout,
    ByUid,
    Case,
    Failed,
    Keyed,
    Received,
    Refused,
    ScriptSpout,
    Steps,
    path_of,
)

BOLTS = (Steps, Steps, Keyed, Anchors, Anchors, Lists, Lists, Columns)
KINDS = ("shuffle", "fields", "global", "all", "custom", "none", "partial-key", "local-or-shuffle")
AT_RANDOM = ("shuffle", "none", "partial-key", "local-or-shuffle")
"""Which task gets a tuple does not follow from its values."""
COUNTED = frozenset({"emitted", "transferred", "executed", "acked", "failed"})


@dataclass(frozen=True)
class Way:
    """How a topology is run.

    Attributes:
        spout: "singly", "by lists", or "mixed".
        limits: Sizes of slices, rows and inboxes.
        workers: How many.
        faults: So many attempts are killed, at most.
        is_watched: Whether somebody looks at tuples, and messages are traced.
    """

    spout: str
    limits: EngineLimits
    workers: int = 1
    faults: int = 0
    is_watched: bool = False


SINGLY = Way("singly", EngineLimits(whole_batches=1, spout_slice=1, row_tuples=1, waiting_tuples=1))


def other_ways(rng):
    """By large chunks, and by chunks of any size with troubles."""
    yield Way("by lists", EngineLimits(), rng.randint(1, 2))
    limits = EngineLimits(
        whole_batches=1,
        spout_slice=rng.choice((1, 7, 4096)),
        row_tuples=rng.choice((1, 3, 4096)),
        waiting_tuples=rng.choice((1, 4, 1 << 14)),
    )
    faults = rng.choice((0, 0, 3))
    yield Way("mixed", limits, rng.randint(1, 3), faults, is_watched=rng.random() < 0.5)


def any_world(rng):
    """What builds one topology for any way, and the components whose order follows from it."""
    seed = rng.randrange(10**9)
    limit = rng.choice((None, None, None, 3, 30))
    spec = {
        "ackers": rng.choice((0, 1, 1, 2, 3)),
        "message_timeout_seconds": 60 if limit is None else 5,
        "max_spout_pending": limit,
        "tap": {"allowed": True},
    }
    conf = {
        "seed": seed,
        "odd": rng.choice((0.0, 0.05, 0.3)),
        "failing": rng.choice((0.0, 0.02, 0.2)),
        "forgets": rng.choice((0.0, 0.0, 0.02)),
        "holds": limit is None,
        "any_ids": rng.random() < 0.3,
    }
    parts, exact, sources = [], {}, []
    for i in range(rng.choice((1, 1, 2))):
        kind, tasks = rng.choice((ScriptSpout, ScriptSpout, BatchScriptSpout)), rng.randint(1, 2)
        more = {"tuples": rng.choice((5, 30, 30, 150)), "stream": "default"}
        parts.append((f"s{i}", kind, tasks, more, []))
        exact[f"s{i}"] = True
        sources.append(f"s{i}")
    for i in range(rng.randint(1, 4)):
        kind, tasks, inputs = rng.choice(BOLTS), rng.randint(1, 3), {}
        name = f"b{i}"
        for _ in range(rng.choice((1, 1, 2, 3))):
            stream = rng.choice(("default", "default", "default", "second", "direct"))
            inputs[rng.choice(sources), stream] = rng.choice(KINDS)
        if rng.random() < 0.4:  # two streams of one component arrive in their order
            source = rng.choice(sources)
            inputs[source, "default"], inputs[source, "second"] = rng.choice(KINDS), "shuffle"
        if rng.random() < 0.5:
            tasks = 1
        is_exact = all(
            exact[source] and (tasks == 1 or kind_ not in AT_RANDOM)
            for (source, _), kind_ in inputs.items()
        )
        exact[name] = is_exact
        if not is_exact:  # or several copies could not be told apart
            inputs = {
                key: "fields" if how in ("all", "custom") and tasks > 1 else how
                for key, how in inputs.items()
            }
        more = {
            "children": rng.choice(((1,), (1,), (0, 1), (0, 1, 2), (2,), (0, 2))),
            "stream": rng.choice(("default", "default", "second")),
            "exact": is_exact,
            "holds": conf["holds"] and is_exact,
            "blocking": rng.random() < 0.3,
            "filtered": [[*key] for key in inputs if key[1] != "direct" and rng.random() < 0.1],
        }
        parts.append((name, kind, tasks, more, list(inputs.items())))
        sources.append(name)
    return World(spec, conf, parts, exact)


@dataclass
class World:
    """One random topology."""

    spec: dict
    conf: dict
    parts: list
    exact: dict

    def built(self, way):
        """The topology for a way."""
        builder = TopologyBuilder(name="random", workers=way.workers, **self.spec)
        named = [name for name, *_, inputs in self.parts if inputs]
        for name, kind, tasks, more, inputs in self.parts:
            conf = {**self.conf, "exact": True, "way": way.spout, "targets": named, **more}
            if not inputs:
                builder.set_spout(name, kind, tasks).set_config(conf)
                continue
            bolt = builder.set_bolt(name, kind, tasks).set_config(conf)
            bolt.set_blocking(conf["blocking"]).set_track_results(False)
            for (source, stream), how in inputs:
                subscribe(bolt, source, stream, how)
                if [source, stream] in conf["filtered"] and way is not SINGLY:
                    bolt.where(WHERE).select({name: name for name in FIELDS})
        return builder.build()


def subscribe(bolt, source, stream, how):
    if stream == "direct":
        bolt.direct_grouping(source, stream)
    elif how == "custom":
        bolt.custom_grouping(source, ByUid, stream)
    elif how in ("fields", "partial-key"):
        method = bolt.fields_grouping if how == "fields" else bolt.partial_key_grouping
        method(source, ["key"], stream)
    else:
        getattr(bolt, how.replace("-", "_") + "_grouping")(source, stream)


@dataclass
class Outcome:
    """What came of a topology.

    Attributes:
        acked: The ids of messages.
        failed: The ids of those that failed, and the reasons.
        refused: Root -> the uids of what bolts failed of it, "" for one that names none.
        orders: What each task of an exact component received by the same tasks, in that order.
        received: What the others received.
        states: Component -> its keyed state.
        counts: The figures of the report. None: they differ, as a driver was killed, and the next
            one counts anew, or because of what `where` leaves out.
        cases: How often there was what is hard to get right.
    """

    acked: Counter = field(default_factory=Counter)
    failed: dict = field(default_factory=dict)
    refused: dict = field(default_factory=lambda: defaultdict(list))
    orders: dict = field(default_factory=lambda: defaultdict(list))
    received: Counter = field(default_factory=Counter)
    states: dict = field(default_factory=dict)
    counts: dict | None = None
    cases: Counter = field(default_factory=Counter)


class Attempts(Silent):
    """Forgets what attempts did that came to nothing."""

    def __init__(self):
        self.seen = self.lost = 0

    def batch(self, totals, done):
        self.seen = len(LOG)

    def attempt_failed(self, number, reason):
        self.forget()

    def forget(self):
        del LOG[self.seen :]
        self.lost += 1


class Jobs(Steady):
    """Traces some messages."""

    sampling = None

    def start(self, placed):
        return super().start(replace(placed, sampling=self.sampling))


def run(world, way, seed):
    """Run a topology to its end in one way."""
    LOG.clear()
    topology, store, clock, attempts = world.built(way), new_store(), ManualClock(), Attempts()
    drawn = np.random.default_rng(seed)

    def another():  # no two workers may draw the same ids
        return np.random.default_rng(drawn.integers(1 << 60))

    chaos, died = Chaos(seed, way.faults, 0.02), False
    while True:
        jobs = Jobs(clock, 0.01, chaos.fault, store, another)
        if way.is_watched:
            jobs.sampling = Sampling(0.3, 7)
        made = make_driver(
            topology, store=store, clock=clock, jobs=jobs, observer=attempts, limits=way.limits
        )
        try:
            driver = made.start()
            if way.is_watched:
                made.taps.open(WantedTap(world.parts[-1][0]))
            chaos.crashes = lambda driver=driver: driver.coordinator.blame.crashes
            driver.run(Stop(when_drained=True))
        except DriverDied:
            attempts.forget()
            died = True
        else:
            driver.close()
            break
    found = outcome(world, driver, attempts.lost)
    has_counts = not died and not any(more.get("filtered") for _, _, _, more, _ in world.parts)
    return found if has_counts else replace(found, counts=None)


def together(driver, name):
    """The keyed state of all tasks. Where several have the same key, the order does not matter."""
    manifest, found = driver.log.manifest, defaultdict(int)
    keys = [driver.plan.key_of(task) for task in driver.plan.tasks(name)]
    for journals in load_many(driver.store, manifest, keys).values():
        for key, number in KeyedState.restore(journals).items():
            found[key] ^= number
    return found


def outcome(world, driver, lost):
    found = Outcome(cases=Counter({"attempts lost": lost}))
    for event in LOG:
        match event:
            case Acked(msg_id):
                found.acked[msg_id] += 1
            case Failed(msg_id, reason):
                assert msg_id not in found.failed
                found.failed[msg_id] = reason
            case Refused(roots, uid):
                for root in roots.split(";")[:-1]:
                    found.refused[f"{root};"].append(uid)
            case Received(component, task, stream, uid):
                if world.exact[component]:
                    found.orders[component, task, path_of(uid)].append((stream, uid))
                else:
                    found.received[component, stream, uid] += 1
            case Case(name):
                assert not name.startswith("BROKEN"), name
                found.cases[name] += 1
    often = sum(len(found.refused[msg_id]) > 1 for msg_id in found.failed)
    left_out = any(more.get("filtered") for _, _, _, more, _ in world.parts)
    found.cases.update(
        {
            "where": left_out,
            "acked": len(found.acked),
            "failed": len(found.failed),
            "failed more than once": often,
        }
    )
    for name, kind, *_ in world.parts:
        if kind is Keyed:
            found.states[name] = together(driver, name)
    found.counts = {
        key: n
        for key, n in driver.totals.counts.items()
        if n and key[1] in COUNTED and not key[0].startswith("__")
    }
    return found
