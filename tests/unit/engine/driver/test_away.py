"""People see which service is away, for whom and since when, until it answers."""

from dataclasses import replace

import pytest

from fulmen import (
    ArrowBolt,
    BasicBolt,
    Bolt,
    ServiceUnavailable,
    Sink,
    Spout,
    TopologyBuilder,
    TransactionalTopologyBuilder,
)
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.failures.recovery import OUTAGE_TOLD_SECONDS
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.errors import TopologyFailed
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.driver.reporting import report_of
from fulmen.services.errors import StoreRefused
from fulmen.testing import ListSpout, ManualClock
from support.parts.raising_parts import ALL, raising, script
from support.runs.engine_runs import Steady, make_driver, new_store
from support.runs.waiting import REASON, SERVICE, Reaches, run_waiting, waiting_driver
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.sources import Rows, RowsCoordinator
from support.transactions.transacted import PAST, Count
from support.transactions.words import collected


class Bare(OSError):
    """As clients have them: it does not say which service."""


class Needs(BasicBolt):
    """Needs a service, as long as there is an error to raise."""

    errors = {}  # noqa: RUF012 (of all workers in this process)

    def prepare(self, conf, context):
        if (error := self.errors.get(context.component)) is not None:
            raise error

    def execute(self, tup, collector):
        pass


class LooksUp:
    """What bolts of all kinds look up, in a service that may be away.

    Attributes:
        calls: How many tuples they were called for.
        found: Those that were found, in batches that counted or not.
    """

    is_away = False
    calls = 0
    found = []  # noqa: RUF012

    def look_up(self, value):
        LooksUp.calls += 1
        if LooksUp.is_away:
            raise ServiceUnavailable(SERVICE, REASON)
        LooksUp.found.append(value)


class BasicLookUp(LooksUp, BasicBolt):
    def execute(self, tup, collector):
        self.look_up(tup[0])


class LookUp(LooksUp, Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.look_up(tup[0])
        self.collector.ack(tup)


class AsyncBasicLookUp(LooksUp, BasicBolt):
    max_concurrency = 1

    async def execute(self, tup, collector):
        self.look_up(tup[0])


class AsyncLookUp(LookUp):
    max_concurrency = 1

    async def execute(self, tup):
        LookUp.execute(self, tup)


class ArrowLookUp(LooksUp, ArrowBolt):
    def execute(self, batch, collector):
        for value in batch.column(0).to_pylist():
            self.look_up(value)


class PinnedNeeds(Spout):
    outputs = ("value",)
    pinned = True

    def open(self, conf, context, collector):
        if (error := Needs.errors.get(context.component)) is not None:
            raise error

    def next_tuple(self):
        pass


@pytest.fixture(autouse=True)
def anew():
    Needs.errors.clear()
    Reaches.service = True
    LooksUp.is_away, LooksUp.calls, LooksUp.found = False, 0, []
    yield
    Reaches.service = True


@pytest.fixture
def clock():
    return ManualClock(100.0)


def started(clock, spout=None, **spec):
    builder = TopologyBuilder("away", **spec)
    builder.set_spout("source", spout or ListSpout([1, 2, 3]))
    for name in ("first", "second"):
        builder.set_bolt(name, Needs).shuffle_grouping("source")
    store = new_store()
    jobs = Steady(clock, 0.1, store=store)
    wall = lambda: 1_700_000_000 + clock()  # noqa: E731
    return make_driver(builder, store=store, clock=clock, jobs=jobs, wall=wall).start()


def away(running):
    away = running.totals.waits.away.values()
    return {a.component: (a.service, a.sentence.partition("UTC: ")[2]) for a in away}


def test_a_service_that_says_its_name_is_told_with_it(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis at cache:6379", "connection refused")
    running = started(clock)
    assert not running.step()
    assert away(running) == {"first": ("Redis at cache:6379", "connection refused")}
    assert running.totals.report()["components"]["first"]["errors"][0]["message"] == (
        "prepare: ServiceUnavailable: Redis at cache:6379 is away: connection refused"
    )
    running.close()


KINDS = [BasicLookUp, LookUp, AsyncBasicLookUp, AsyncLookUp, ArrowLookUp]


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_wait_for_a_service_that_a_bolt_asks_about_each_and_none_fails(clock, kind):
    builder = TopologyBuilder("away", max_replays=1)
    builder.set_spout("source", ListSpout([1, 2, 3]))
    builder.set_bolt("lookup", kind).shuffle_grouping("source")
    store = new_store()
    running = make_driver(
        builder, store=store, clock=clock, jobs=Steady(clock, 0.1, store=store)
    ).start()
    LooksUp.is_away = True
    for _ in range(8):
        running.step()
        clock.advance(10)
    assert away(running) == {"lookup": (SERVICE, REASON)}
    assert LooksUp.calls <= 8, "the others of a batch need not be tried"
    LooksUp.is_away = False
    for _ in range(8):
        running.step()
    assert sorted(LooksUp.found) == [1, 2, 3]
    assert (running.totals.trees.acked, running.totals.trees.failed) == (3, 0)
    assert away(running) == {}
    running.close()


def test_with_on_error_crash_a_service_that_is_away_ends_the_topology(clock):
    builder = TopologyBuilder("away", on_error="crash")
    builder.set_spout("source", ListSpout([1]))
    builder.set_bolt("lookup", BasicLookUp).shuffle_grouping("source")
    LooksUp.is_away = True
    store = new_store()
    running = make_driver(
        builder, store=store, clock=clock, jobs=Steady(clock, 0.1, store=store)
    ).start()
    with pytest.raises(TopologyFailed, match="PostgreSQL at db:5432 is away"):
        running.step()


def test_any_exception_that_may_be_about_a_service_counts(clock):
    Needs.errors["first"] = Bare("no route to host")
    running = started(clock)
    assert not running.step()
    assert away(running) == {"first": ("", "prepare: Bare: no route to host")}
    text = running.totals.waits.away["first"].sentence
    assert text.startswith("'first' waits for a service since ")
    running.close()


class NeedsLookUp(Needs):
    def execute(self, tup, collector):
        LooksUp.look_up(self, tup[0])


@pytest.mark.parametrize("error", [StoreRefused("table 't'", "gone"), PermissionError("gone")])
def test_what_open_refuses_is_waited_for_if_it_was_right_at_the_start(clock, error):
    def driver():
        builder = TopologyBuilder("away", max_spout_pending=1)
        builder.set_spout("source", ListSpout([1, 2, 3]))
        builder.set_bolt("sink", NeedsLookUp).shuffle_grouping("source")
        store = new_store()
        jobs = Steady(clock, 0.1, store=store)
        return make_driver(builder, store=store, clock=clock, jobs=jobs).start()

    Needs.errors["sink"] = error
    with pytest.raises(TopologyFailed, match=r"prepare: .*gone"):
        driver().step()
    Needs.errors.clear()
    running = driver()
    assert running.step()
    LooksUp.is_away, Needs.errors["sink"] = True, error
    for _ in range(5):
        running.step()
        clock.advance(5)
    assert "gone" in away(running)["sink"][1]
    LooksUp.is_away = False
    Needs.errors.clear()
    for _ in range(8):
        running.step()
    assert sorted(LooksUp.found) == [1, 2, 3]
    assert (away(running), running.totals.trees.failed) == ({}, 0)
    running.close()


def test_a_pinned_spout_can_wait_for_a_service(clock):
    Needs.errors["source"] = ServiceUnavailable("AMQP at mq:5672", "no answer")
    running = started(clock, PinnedNeeds)
    assert not running.step()
    assert away(running) == {"source": ("AMQP at mq:5672", "no answer")}
    running.close()


def test_it_is_so_since_the_first_attempt_that_failed_of_it(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis", "refused")
    running = started(clock)
    running.step()
    since = running.totals.waits.away["first"].since
    for _ in range(5):
        clock.advance(10)
        Needs.errors["first"] = ServiceUnavailable("Redis", "still refused")
        running.step()
    assert running.totals.waits.away["first"].since == since
    assert running.totals.waits.away["first"].sentence.endswith(": still refused")
    Needs.errors["first"] = ServiceUnavailable("another Redis", "refused")
    running.step()
    assert running.totals.waits.away["first"].since > since + 50
    running.close()


def test_two_components_may_wait_for_two_services(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis", "refused")
    running = started(clock)
    running.step()
    Needs.errors.clear()
    Needs.errors["second"] = ServiceUnavailable("PostgreSQL", "refused")
    running.step()
    assert away(running) == {"first": ("Redis", "refused"), "second": ("PostgreSQL", "refused")}
    running.close()


def test_when_a_batch_counts_nothing_is_away_any_more(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis", "refused")
    running = started(clock)
    running.step()
    clock.advance(OUTAGE_TOLD_SECONDS)
    assert running.recovery.outage.service == "Redis"
    Needs.errors.clear()
    assert running.step()
    assert (away(running), running.recovery.outage) == ({}, None)
    running.close()


def test_people_are_told_when_it_lasts(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis", "refused")
    running = started(clock)
    running.step()
    began = running.totals.waits.away["first"].began
    clock.now = began + OUTAGE_TOLD_SECONDS - 0.001
    assert running.recovery.outage is None
    clock.now = began + OUTAGE_TOLD_SECONDS
    assert running.recovery.outage.component == "first"
    running.close()


def test_a_topology_that_is_to_drain_while_a_service_is_away_fails_with_it(clock):
    Needs.errors["first"] = ServiceUnavailable("Redis", "refused")
    running = started(clock)
    running.step()
    with pytest.raises(TopologyFailed, match=r"first.*Redis is away: refused"):
        running.run(Stop(drain=True))
    running.close()


def test_an_attempt_that_fails_of_something_else_says_that_the_service_is_back():
    running = run_waiting()
    assert away(running) == {"writer": (SERVICE, REASON)}
    running.jobs.loses = True
    assert not running.step()
    assert (away(running), running.recovery.away) == ({}, None)
    running.close()


def test_a_service_is_still_away_when_the_cluster_takes_a_worker_meanwhile():
    running = run_waiting()
    since = running.totals.waits.away["writer"].since
    Reaches.service = False
    running.jobs.loses, running.jobs.is_clusters = True, True
    assert not running.step()
    assert (running.totals.waits.away["writer"].since, running.recovery.away) == (since, None)
    running.close()


def test_the_driver_s_report_says_what_is_away_and_since_when():
    running = run_waiting()
    since = running.totals.waits.away["writer"].since
    running.recovery.clocks = replace(running.clocks, wall=lambda: since + OUTAGE_TOLD_SECONDS)
    said = report_of(running, DriverPhase.ACTIVE, 1, [0], {}, "driver", "")
    assert said.outage.reason == "ServiceUnavailable"
    at = "2023-11-14 22:13:20 UTC"
    assert said.outage.message == f"'writer' waits for {SERVICE} since {at}: {REASON}"
    assert running.step()
    assert report_of(running, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").outage is None
    running.close()


def test_a_report_does_not_change_with_each_attempt():
    """Each change is a call of the API server's."""
    running = run_waiting()
    running.recovery.clocks = replace(running.clocks, wall=lambda: 2e9)
    Reaches.service = False
    said = [report_of(running, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").outage]
    for _ in range(3):
        assert not running.step()
        said.append(report_of(running, DriverPhase.ACTIVE, 1, [0], {}, "driver", "").outage)
    assert len({one.to_json() for one in said}) == 1
    running.close()


def test_a_topology_waits_from_its_start():
    Reaches.service = False
    running = waiting_driver().start()
    assert not running.step()
    assert away(running) == {"writer": (SERVICE, REASON)}
    Reaches.service = True
    assert running.step()
    assert away(running) == {}
    running.close()


class Store(Sink):
    """Is away as long as there is an error to raise."""

    guarantees = ("at-least-once", "exactly-once")

    def prepare(self, conf, context):
        self.rows = context.counter("rows", "Rows that were written.")

    def write(self, rows, mark):
        if (error := Needs.errors.get("store")) is not None:
            raise error
        self.rows.inc(len(rows))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_sink_whose_store_is_away_is_told_as_well_and_counts_each_row_once(clock, guarantee):
    builder = TopologyBuilder("away")
    builder.set_spout("source", ListSpout(range(20)))
    store = builder.set_bolt("store", Store).set_config({"guarantee": guarantee})
    store.shuffle_grouping("source")
    kept = new_store()
    jobs = Steady(clock, 0.1, store=kept)
    running = make_driver(builder, store=kept, clock=clock, jobs=jobs).start()
    Needs.errors["store"] = ServiceUnavailable("PostgreSQL", "refused")
    while running.step():
        pass
    assert away(running) == {"store": ("PostgreSQL", "refused")}
    ended = [running.step() for _ in range(4)]  # at-least-once: one of them has no rows to write
    assert ended.count(False) >= 3
    assert away(running) == {"store": ("PostgreSQL", "refused")}
    Needs.errors.clear()
    running.run(Stop(when_drained=True))
    running.close()
    assert away(running) == {}
    assert running.totals.report()["components"]["store"]["metrics"] == {"rows": 20}


class AwayRows(Rows):
    """A source of transactions that is away as long as there is an error to raise."""

    def get_coordinator(self, conf, context):
        return AwayCoordinator(self, context)


class AwayCoordinator(RowsCoordinator):
    def __init__(self, spout, context):
        super().__init__(spout)
        self.ready = context.counter("opened", "Transactions.")
        self.context = context

    def is_ready(self):
        if (error := Needs.errors.get("rows")) is not None:
            raise error
        return super().is_ready()

    def num_partitions(self):
        self.ready.inc()
        self.context.lag(messages=self.turns - self.opened - 1)
        return super().num_partitions()


def transactional(clock):
    rows = AwayRows((tuple(map(str, range(10))),), take=1)
    builder = TransactionalTopologyBuilder("away", "rows", rows, max_spout_pending=1)
    builder.set_bolt("count", Count).shuffle_grouping("rows")
    PAST["away"] = set()
    store = new_store()
    jobs = Steady(clock, 0.6, store=store)
    wall = lambda: 1_700_000_000 + clock()  # noqa: E731
    return make_driver(builder, store=store, clock=clock, jobs=jobs, wall=wall).start()


def test_a_source_of_transactions_that_is_away_is_told_while_batches_go_on(clock):
    running = transactional(clock)
    running.step()
    Needs.errors["rows"] = ServiceUnavailable("Kafka at broker:9092", "no answer")
    for _ in range(20):
        assert running.step()
    assert away(running) == {"rows": ("Kafka at broker:9092", "no answer")}
    assert running.recovery.outage.component == "rows"
    assert clock() - running.totals.waits.away["rows"].began > 10
    Needs.errors.clear()
    running.run(Stop(when_drained=True))
    running.close()
    assert away(running) == {}
    assert running.totals.transactions.committed == 10


def test_what_the_coordinator_of_a_source_counts_is_counted_once(clock):
    running = transactional(clock)
    running.run(Stop(when_drained=True))
    running.close()
    assert running.totals.report()["components"]["rows"]["metrics"] == {"opened": 10}
    (task,) = running.plan.tasks("rows")
    assert running.totals.waits.lags[task] == (0, None)


def test_a_mistake_of_a_source_of_transactions_is_no_service_that_is_away(clock):
    running = transactional(clock)
    running.step()
    Needs.errors["rows"] = KeyError("no")
    for _ in range(3):
        running.step()
    assert away(running) == {}
    assert running.totals.sum(ERRORS, "rows") == 1
    running.close()


def test_what_a_committer_needs_is_away_until_a_transaction_is_committed(clock):
    name = fresh_store()
    script(STORES[name], **{"last finish_batch": [ServiceUnavailable("the map", "refused")] * 5})
    kept = new_store()
    jobs = Steady(clock, 0.1, store=kept)
    builder = raising("parts", {"store": name})
    running = make_driver(builder, store=kept, clock=clock, jobs=jobs).start()
    while not away(running):
        running.step()
    assert away(running) == {"last": ("the map", "refused")}
    since = running.totals.waits.away["last"].since
    while STORES[name].get(("script", "last finish_batch")):
        running.step()
        assert running.totals.waits.away["last"].since == since
    running.run(Stop(when_drained=True))
    running.close()
    assert away(running) == {}
    assert sorted(collected(STORES[name].all())) == ALL
    (error,) = running.totals.errors["last"]  # once, with a count
    assert (error["message"], error["count"]) == (
        "finish_batch: ServiceUnavailable: the map is away: refused",
        running.totals.sum(ERRORS, "last"),
    )
    assert error["count"] == 5
