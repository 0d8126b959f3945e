"""A driver that has drained waits for the one that replaces it."""

import pytest

from fulmen.kube.driver.api import ApiError
from fulmen.kube.driver.successor import Successor
from fulmen.services.http.handover import Handover

NOT_THERE = ApiError("GET", 404, "not found")
NO_ROOM = {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
STARTS = {"status": {"conditions": [{"type": "Ready", "status": "False"}], "podIP": "10.0.0.9"}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.9"}}


class Server:
    """A server with requests that wait, for so long."""

    def __init__(self, clock, until=0.0):
        self._clock, self._until = clock, until
        self.ended_at = None

    @property
    def waiting(self):
        return int(self._clock() < self._until)

    def end(self):
        self.ended_at = self._clock()


class World:
    """A clock that waits by itself, and an API server that tells of a pod by the time."""

    def __init__(self, *told, busy_until=0.0):
        self.now, self._told = 0.0, told
        self.handover = Handover()
        self.server = Server(lambda: self.now, busy_until)
        self.handover.keep(("0.0.0.0", 8080), self.server)
        self.successor = Successor(
            self, "shop-driver-2", self.handover, lambda: self.now, self.wait
        )
        self.led_to = set()

    def wait(self, seconds):
        self.now += seconds
        self.led_to.add((self.handover.successor, self.successor.is_ready))

    def pod(self, name):
        assert name == "shop-driver-2"
        said = [what for at, what in self._told if at <= self.now][-1]
        if isinstance(said, Exception):
            raise said
        return said


def test_it_leads_clients_to_the_next_driver_as_soon_as_that_is_ready():
    world = World((0, NOT_THERE), (3, STARTS), (20, READY))
    world.successor.hand_over(80)
    assert world.led_to == {("", False), ("10.0.0.9", True)}
    assert 30 <= world.server.ended_at <= 31


def test_it_goes_only_when_all_that_came_to_it_is_answered():
    world = World((0, READY), busy_until=40)
    world.successor.hand_over(80)
    assert 40 <= world.server.ended_at <= 41


@pytest.mark.parametrize(
    ("told", "busy_until", "ended"),
    [
        pytest.param([(0, NOT_THERE)], 0, 80, id="it-never-comes"),
        pytest.param([(0, STARTS)], 0, 80, id="it-is-never-ready"),
        pytest.param([(0, READY)], 1000, 80, id="a-request-is-never-answered"),
        pytest.param([(0, NOT_THERE), (5, NO_ROOM)], 0, 14.5, id="there-is-no-room-for-both"),
        pytest.param([(0, NO_ROOM), (5, STARTS), (20, READY)], 0, 30, id="room-is-found"),
    ],
)
def test_it_does_not_wait_for_ever(told, busy_until, ended):
    world = World(*told, busy_until=busy_until)
    world.successor.hand_over(80)
    assert ended <= world.server.ended_at <= ended + 1
