"""The lease: never two candidates that may write, whatever happens; soon one, if all is well."""

from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen_operator.controller.lease import LEAD_SECONDS, WAIT_SECONDS, Claim, LeaseCandidate, Look


class Refused(Exception):
    """Somebody else has changed the lease meanwhile."""


@dataclass
class Server:
    """One lease, with optimistic locking."""

    version: int | None = None
    spec: dict = field(default_factory=dict)
    uid: int = 0
    last: int = 0

    def delete(self):
        self.version, self.spec = None, {}

    def carry_out(self, request):
        if isinstance(request, Claim):
            if request.version != (None if self.version is None else str(self.version)):
                raise Refused
            self.uid += self.version is None
            self.version = self.last = max(self.version or 0, self.last) + 1
            self.spec = {"leaseTransitions": request.transitions, "leaseDurationSeconds": 10}
            if request.holder:
                self.spec["holderIdentity"] = request.holder
        return self.lease()

    def lease(self):
        if self.version is None:
            return None
        metadata = {"uid": str(self.uid), "resourceVersion": str(self.version)}
        return {"metadata": metadata, "spec": self.spec}


def play(turn, server):
    """A whole turn, in which nothing is lost."""
    try:
        request = next(turn)
        while True:
            request = turn.send(server.carry_out(request))
    except StopIteration:
        return


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def given_back():
    """A lease that nobody has any more."""
    return Server(7, {"leaseTransitions": 3}, 1, 7)


def test_the_first_one_leads_at_once_and_the_other_waits(clock):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    for candidate in (first, second):
        play(candidate.turn(clock), server)
    assert (first.left(clock.now), second.left(clock.now)) == (LEAD_SECONDS, 0)
    assert second.holder == "first"
    assert server.spec["leaseTransitions"] == 4


def test_a_leader_renews_by_one_request(clock):
    server, leader = given_back(), LeaseCandidate("leader")
    play(leader.turn(clock), server)
    clock.now += 5
    turn = leader.turn(clock)
    assert next(turn) == Claim("8", "leader", 4, is_new=False)
    with pytest.raises(StopIteration):
        turn.send(server.carry_out(Claim("8", "leader", 4, is_new=False)))
    assert leader.left(clock.now) == LEAD_SECONDS


def test_its_time_counts_from_when_it_asked(clock):
    server, leader = given_back(), LeaseCandidate("leader")
    turn = leader.turn(clock)
    claim = turn.send(server.carry_out(next(turn)))
    clock.now += 3
    with pytest.raises(StopIteration):
        turn.send(server.carry_out(claim))
    assert leader.left(clock.now) == LEAD_SECONDS - 3


def test_another_leads_when_nothing_was_heard_for_so_long(clock):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    play(second.turn(clock), server)
    clock.now += WAIT_SECONDS - 0.1
    play(second.turn(clock), server)
    assert second.left(clock.now) == 0
    clock.now += 0.1
    play(second.turn(clock), server)
    assert second.left(clock.now) == LEAD_SECONDS
    assert server.spec["leaseTransitions"] == 5


def test_one_that_wakes_finds_another_leader(clock):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    play(second.turn(clock), server)
    clock.now += 60
    assert first.left(clock.now) == 0
    play(second.turn(clock), server)
    with pytest.raises(Refused):
        play(first.turn(clock), server)
    play(first.turn(clock), server)
    assert (first.left(clock.now), first.holder) == (0, "second")


def test_what_is_given_back_is_another_ones_at_once(clock):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    play(second.turn(clock), server)
    server.carry_out(next(first.turn(clock)))  # a renewal of which it does not hear any more
    play(first.give_back(clock), server)
    assert first.left(clock.now) == 0
    play(second.turn(clock), server)
    assert second.left(clock.now) == LEAD_SECONDS


def test_who_does_not_have_it_gives_nothing_back(clock):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    play(second.turn(clock), server)
    play(second.give_back(clock), server)
    play(LeaseCandidate("third").give_back(clock), server)
    assert server.spec["holderIdentity"] == "first"


@pytest.mark.parametrize("has_seen_it", [True, False])
def test_who_makes_a_lease_waits_since_there_may_be_a_leader_that_does_not_know(clock, has_seen_it):
    server, first, second = given_back(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    if has_seen_it:
        play(second.turn(clock), server)
    server.delete()
    for _ in range(WAIT_SECONDS):
        play(second.turn(clock), server)
        assert (second.left(clock.now), second.holder) == (0, "second")
        clock.now += 1
    play(second.turn(clock), server)
    assert second.left(clock.now) == LEAD_SECONDS


def test_one_that_has_made_a_lease_and_waits_gives_nothing_back(clock):
    server, first = Server(), LeaseCandidate("first")
    play(first.turn(clock), server)
    play(first.give_back(clock), server)
    assert server.spec["holderIdentity"] == "first"


def test_who_sees_another_holder_leads_no_more(clock):
    server, first, third = given_back(), LeaseCandidate("first"), LeaseCandidate("third")
    play(first.turn(clock), server)
    server.delete()
    play(third.turn(clock), server)
    with pytest.raises(Refused):
        play(first.turn(clock), server)
    play(first.turn(clock), server)
    assert first.left(clock.now) == 0


def test_who_waits_longer_by_its_own_rule_is_waited_for(clock):
    """An operator of another version may renew more rarely."""
    server, second = given_back(), LeaseCandidate("b")
    server.spec = {"holderIdentity": "x", "leaseDurationSeconds": 30}
    play(second.turn(clock), server)
    clock.now += 29
    play(second.turn(clock), server)
    assert second.left(clock.now) == 0
    clock.now += 1
    play(second.turn(clock), server)
    assert second.left(clock.now) == LEAD_SECONDS


# ---- whatever happens


@dataclass
class Process:
    """A candidate with its clock, and the request that it waits for."""

    number: int
    offset: float
    rate: float
    lives: int = 0
    turn: object = None
    waits_for: object = None

    def __post_init__(self):
        self.begin_anew()

    def begin_anew(self):
        """The process ends at once, and another one begins."""
        self.lives += 1
        self.candidate = LeaseCandidate(f"{self.number}-{self.lives}")
        self.give_up()

    def give_up(self):
        self.turn = self.waits_for = None


class World:
    """Processes, a server, and requests that may arrive late, in another order, or never."""

    def __init__(self, clocks):
        self.now = 0.0
        self.server = Server()
        self.processes = [Process(n, *clock) for n, clock in enumerate(clocks)]
        self.on_their_way = []
        self.answers = {}

    def clock_of(self, process):
        return lambda: process.offset + process.rate * self.now

    def may_write(self):
        return [p.number for p in self.processes if p.candidate.left(self.clock_of(p)()) > 0]

    def go_on(self, process, send):
        """It gets an answer, and asks the next thing, if there is one."""
        try:
            request = process.turn.send(send)
        except StopIteration:
            process.give_up()
            return
        process.waits_for = (process, request)
        self.on_their_way.append(process.waits_for)

    def begin(self, process, which):
        if process.turn is None:
            process.turn = getattr(process.candidate, which)(self.clock_of(process))
            self.go_on(process, None)

    def arrive(self, number):
        """The server carries a request out, for which nobody may wait any more."""
        if self.on_their_way:
            asked = self.on_their_way.pop(number % len(self.on_their_way))
            try:
                self.answers[id(asked)] = asked, self.server.carry_out(asked[1])
            except Refused:
                if asked[0].waits_for is asked:
                    asked[0].give_up()

    def hear(self, process):
        if id(process.waits_for) in self.answers:
            _, lease = self.answers.pop(id(process.waits_for))
            self.go_on(process, lease)

    def do(self, what, number, seconds):
        process = self.processes[number % len(self.processes)]
        match what:
            case "pass":
                self.now += seconds
            case "delete":
                self.server.delete()
            case "turn" | "give_back":
                self.begin(process, what)
            case "arrive":
                self.arrive(number)
            case "hear":
                self.hear(process)
            case "give up":
                process.give_up()
            case "begin anew":
                process.begin_anew()
            case "all":
                self.begin(process, "turn")
                for _ in range(2):
                    self.arrive(-1)
                    self.hear(process)


RATE = st.floats(1, WAIT_SECONDS / LEAD_SECONDS * 0.999)
EVENTS = st.sampled_from(
    [
        *("all", "all", "pass", "pass", "turn", "arrive", "hear"),
        *("give up", "give_back", "begin anew", "delete"),
    ]
)
SECONDS = st.sampled_from([0.01, 1.0, 3.0, 4.9, 5.0, 6.9, 7.0, 9.9, 10.0, 14.3])


@given(
    st.lists(st.tuples(st.floats(-100, 100), RATE), min_size=2, max_size=3),
    st.lists(st.tuples(EVENTS, st.integers(0, 5), SECONDS), max_size=60),
)
def test_never_may_two_write(clocks, events):
    world = World(clocks)
    for event in events:
        world.do(*event)
        assert len(world.may_write()) <= 1, (event, world.may_write())


@given(
    st.lists(st.tuples(st.floats(-100, 100), RATE), min_size=2, max_size=3),
    st.lists(st.tuples(EVENTS, st.integers(0, 5), SECONDS), max_size=30),
)
def test_whatever_has_happened_one_leads_soon_when_all_is_well(clocks, events):
    world = World(clocks)
    for event in events:
        world.do(*event)
    world.on_their_way.clear()
    for process in world.processes:
        process.give_up()
    for _ in range(int(WAIT_SECONDS) + 2):  # a second each
        world.now += 1.0
        for process in world.processes:
            with suppress(Refused):
                play(process.candidate.turn(world.clock_of(process)), world.server)
    assert len(world.may_write()) == 1


def test_looking_is_all_that_a_candidate_does_that_stands_by(clock):
    server, first, second = Server(), LeaseCandidate("first"), LeaseCandidate("second")
    play(first.turn(clock), server)
    turn = second.turn(clock)
    assert next(turn) == Look()
    with pytest.raises(StopIteration):
        turn.send(server.lease())
