"""What the driver's page says of `autoscale`: the status, asked for if somebody looks."""

from fulmen.kube.driver.api import ApiError
from fulmen.kube.driver.scaling import ScalingStatus

STATUS = {
    "workers": 3,
    "since": "2026-11-20T10:00:00Z",
    "lastChange": "more",
    "direction": "Up",
    "reason": "Enough",
    "message": "batches have time",
    "begunWith": 1,
}
SHOWN = {
    "workers": 3,
    "since": "2026-11-20T10:00:00Z",
    "last_change": "more",
    "reason": "Enough",
    "message": "batches have time",
}


class Topologies:
    def __init__(self):
        self.status, self.asked = {"autoscale": STATUS}, []

    def topology(self, name):
        self.asked.append(name)
        if self.status is None:
            raise ApiError("GET", 0, "no answer")
        return {"status": self.status}


def test_the_status_is_asked_for_at_most_every_ten_seconds_and_kept_while_it_can_not_be_had():
    api, now = Topologies(), [100.0]
    scaling = ScalingStatus(api, "shop", lambda: now[0])
    assert api.asked == []
    assert [scaling.latest(), scaling.latest()] == [SHOWN, SHOWN]
    assert api.asked == ["shop"]
    now[0], api.status = 110.0, None
    assert [scaling.latest(), scaling.latest()] == [SHOWN, SHOWN]
    assert len(api.asked) == 2
    now[0], api.status = 120.0, {}
    assert scaling.latest() is None
