"""How far several tasks are behind together."""

import pytest

from fulmen.api.signals import Lag
from fulmen.engine.totals.waits import lag_of


@pytest.mark.parametrize(
    ("lags", "together"),
    [
        ([], None),
        ([Lag(3, 1.0), Lag(4, 2.0)], Lag(7, 2.0)),
        ([Lag(3, None), Lag(None, 2.0)], Lag(None, 2.0)),  # how many the other has is not known
        ([Lag(0, 0.0), Lag(None, 72.0)], Lag(None, 72.0)),
        ([Lag(3, 1.0), Lag(None, 0.0)], Lag(3, 1.0)),  # the other has none
    ],
)
def test_lags_of_tasks_are_added(lags, together):
    assert lag_of(dict(enumerate(lags)), range(9)) == together
