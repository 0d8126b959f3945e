"""Operators stand for leader, lead, and end their terms. Time passes without anybody waiting."""

import asyncio
import logging
from contextlib import asynccontextmanager, suppress

import pytest

from fulmen_operator.cluster.api import CallFailed
from fulmen_operator.cluster.fence import FencedServer
from fulmen_operator.controller.election import TURN_SECONDS, Election
from fulmen_operator.controller.lease import LEAD_SECONDS, WAIT_SECONDS
from support.operator import virtual_time
from support.operator.fake_lease import NAME, NAMESPACE, Connection, LeaseServer


class Operator:
    """One of them, whose work is to say when its terms begin and end.

    Attributes:
        api: Its way to the API server, which a test may cut.
        said: "begins" and "ends", with the time.
        work: What a term does.
    """

    def __init__(self, server, name):
        self.api = Connection(server)
        self.election = Election(
            self.api, NAMESPACE, NAME, name, virtual_time.clock, lambda: self._term()
        )
        self.fenced = FencedServer(self.api, self.election.left)
        self.said = []
        self.work = asyncio.Event().wait
        self.task = asyncio.create_task(self.election.run())

    async def _term(self):
        self.said.append(("begins", virtual_time.clock()))
        try:
            await self.work()
        finally:
            self.said.append(("ends", virtual_time.clock()))

    @property
    def leads(self):
        return self.election.left() > 0

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def two():
    """Two operators; the first one leads."""
    server = LeaseServer()
    first = Operator(server, "first")
    await asyncio.sleep(1)
    second = Operator(server, "second")
    await asyncio.sleep(5)
    assert (first.leads, second.leads) == (True, False)
    yield server, first, second
    assert not (first.leads and second.leads)
    await first.stop()
    await second.stop()


def in_virtual_time(test):
    """Have a test be run where time passes at once."""

    def run(caplog):
        caplog.set_level(logging.INFO)
        virtual_time.run(test(caplog))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_virtual_time
async def test_one_leads_and_says_so_and_one_stands_by(caplog):
    async with two() as (server, first, second):
        await asyncio.sleep(600)
        assert [what for what, _ in first.said] == ["begins"]
        assert second.said == []
        spec = server.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("first", 10)
        assert spec["acquireTime"] < spec["renewTime"]
        (event,) = server.events
        assert (event["reason"], event["message"]) == ("LeaderElection", "first became the leader")
        assert event["involvedObject"]["name"] == NAME
        said = [record.message for record in caplog.records]
        assert said == ["first leads now", "second stands by: first leads"]


@in_virtual_time
async def test_the_first_of_all_makes_the_lease_and_leads_when_nobody_else_can_write(caplog):
    server = LeaseServer()
    server.lease = None
    began, first = virtual_time.clock(), Operator(server, "first")
    await asyncio.sleep(15)
    assert [what for what, _ in first.said] == ["begins"]
    assert WAIT_SECONDS <= first.said[0][1] - began <= WAIT_SECONDS + TURN_SECONDS + 0.1
    assert [record.message for record in caplog.records] == [
        "first leads in 10 s: its lease is new, and another one may still write",
        "first leads now",
    ]
    await first.stop()


@in_virtual_time
async def test_one_that_ends_lets_the_other_lead_at_once(caplog):
    async with two() as (server, first, second):
        before = virtual_time.clock()
        await first.stop()
        assert first.said[-1][0] == "ends"
        assert server.holder is None
        await asyncio.sleep(TURN_SECONDS + 1)
        assert second.said[0][1] <= before + TURN_SECONDS + 0.1
        assert server.lease["spec"]["leaseTransitions"] == 5


@in_virtual_time
async def test_one_that_is_killed_is_replaced_within_seconds(caplog):
    async with two() as (_, first, second):
        first.api.is_up.clear()
        first.task.cancel()
        before = virtual_time.clock()
        await asyncio.sleep(60)
        assert second.said[0][1] <= before + WAIT_SECONDS + TURN_SECONDS + 0.1


@in_virtual_time
async def test_a_leader_that_does_not_reach_the_api_server_ends_its_term_first(caplog):
    async with two() as (server, first, second):
        first.api.is_up.clear()
        await asyncio.sleep(60)
        (_, (ends, left)), (begins, took) = first.said, second.said[0]
        assert (ends, begins, left < took) == ("ends", "begins", True)
        assert "first leads no more: its lease was not renewed in time" in caplog.messages
        first.api.is_up.set()
        await asyncio.sleep(10)
        assert (server.holder, len(first.said)) == ("second", 2)
        assert caplog.messages[-1] == "first stands by: second leads"


@in_virtual_time
async def test_calls_that_hang_now_and_then_end_no_term(caplog):
    async with two() as (_, first, second):
        for _ in range(20):
            first.api.is_up.clear()
            await asyncio.sleep(3)
            first.api.is_up.set()
            await asyncio.sleep(3)
        assert (len(first.said), second.said) == (1, [])


@in_virtual_time
async def test_a_leader_that_was_stopped_changes_nothing_when_it_wakes(caplog):
    """Of a process that is stopped nothing goes on but its clock."""
    server, wakes, tried = LeaseServer(), asyncio.Event(), []
    first, second = Operator(server, "first"), Operator(server, "second")

    async def work():
        await wakes.wait()
        try:
            await first.fenced.call("POST", "/pods")
        except CallFailed as error:
            tried.append(str(error))

    first.work = work
    await asyncio.sleep(5)
    assert first.leads
    first.election._turn = asyncio.Event().wait
    await asyncio.sleep(60)
    assert second.leads
    wakes.set()
    await asyncio.sleep(1)
    assert tried == ["POST /pods: this operator does not lead any more (0)"]
    await first.stop()
    await second.stop()


@in_virtual_time
async def test_while_the_api_server_is_away_from_all_nobody_leads_and_then_one_does(caplog):
    async with two() as (_, first, second):
        for operator in (first, second):
            operator.api.is_up.clear()
        await asyncio.sleep(60)
        assert (first.leads, second.leads) == (False, False)
        assert len([said for said in caplog.messages if "does not get the lease" in said]) <= 4
        for operator in (first, second):
            operator.api.is_up.set()
        await asyncio.sleep(5)
        assert first.leads != second.leads


@in_virtual_time
async def test_without_the_right_to_it_it_says_so_once(caplog):
    operator = Operator(LeaseServer(), "alone")
    operator.api.refusal = (403, "leases.coordination.k8s.io is forbidden")
    await asyncio.sleep(60)
    await operator.stop()
    assert operator.said == []
    (record,) = caplog.records
    assert (record.levelname, "is forbidden" in record.message) == ("WARNING", True)


@in_virtual_time
async def test_a_mistake_of_ours_ends_the_operator(caplog):
    operator = Operator(LeaseServer(), "alone")

    async def work():
        raise ZeroDivisionError

    operator.work = work
    await asyncio.sleep(10)
    with pytest.raises(ExceptionGroup):
        await operator.task


@in_virtual_time
async def test_a_term_that_does_not_end_ends_the_operator(caplog):
    operator, told = Operator(LeaseServer(), "alone"), asyncio.Event()

    async def work():
        while not told.is_set():
            with suppress(asyncio.CancelledError):
                await told.wait()

    operator.work = work
    await asyncio.sleep(10)
    operator.api.is_up.clear()
    await asyncio.wait({operator.task}, timeout=60)
    told.set()
    with pytest.raises(RuntimeError, match="a term goes on 30 s after its end"):
        await operator.task


@in_virtual_time
async def test_an_event_that_is_not_to_be_told_costs_no_lease(caplog):
    server = LeaseServer()
    operator = Operator(server, "alone")
    carry_out = server.carry_out

    def refuse(method, path, body):
        if path.endswith("/events"):
            raise CallFailed(403, "no events", path)
        return carry_out(method, path, body)

    server.carry_out = refuse
    await asyncio.sleep(LEAD_SECONDS * 3)
    assert operator.leads
    assert "no events" in caplog.text
    await operator.stop()
