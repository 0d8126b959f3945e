"""The rules of Flink and Beam for keyed windows, each a case with its exact outcome.

A step is a tuple, of user, amount and time; or the watermark that a batch ends with; or "2s", so
many seconds of the clock. An outcome has the user, the start and the end of the window, the sum,
and how the row is marked where it may come several times. What is late is `("late", time, ...)`.
"""

import pytest

from fulmen.testing import BoltHarness
from fulmen.windows import Aggregate
from support.windows.aggregates import FIELDS, plain

TUMBLING = {"type": "tumbling", "size": "10ms"}
SLIDING = {"type": "sliding", "size": "10ms", "every": "5ms"}
UNEVEN = {"type": "sliding", "size": "10ms", "every": "4ms"}
SESSION = {"type": "session", "gap": "10ms"}
BERLIN = {"type": "calendar", "unit": "day", "timezone": "Europe/Berlin"}
LATENESS = {"allowedLateness": "20ms"}
HOUR = 3_600_000
SPRING, AUTUMN = 1_711_839_600_000, 1_729_980_000_000
"""When the days began on which clocks were changed in Berlin in 2024."""


def days(start, hours):
    return start, start + hours * HOUR


RULES = [
    # ---- where a tuple belongs
    pytest.param(
        TUMBLING, {}, [("a", 1, 0), ("a", 2, 9), ("a", 4, 10), 20],
        [("a", 0, 10, 3), ("a", 10, 20, 4)], id="start-inclusive-end-exclusive",
    ),
    pytest.param(
        TUMBLING, {}, [("a", 1, -1), ("a", 2, -10), ("a", 4, -11), 0],
        [("a", -20, -10, 4), ("a", -10, 0, 3)], id="before-1970-as-after-it",
    ),
    pytest.param(
        {**TUMBLING, "offset": "3ms"}, {}, [("a", 1, 2), ("a", 2, 3), 13],
        [("a", -7, 3, 1), ("a", 3, 13, 2)], id="aligned-to-the-epoch-plus-an-offset",
    ),
    pytest.param(
        SLIDING, {}, [("a", 1, 7), 20],
        [("a", 0, 10, 1), ("a", 5, 15, 1)], id="sliding-in-size-by-slide-windows",
    ),
    pytest.param(
        UNEVEN, {}, [("a", 1, 9), ("a", 2, 11), 30],
        [("a", 0, 10, 1), ("a", 4, 14, 3), ("a", 8, 18, 3)], id="a-slide-that-does-not-divide",
    ),
    pytest.param(
        BERLIN, {}, [("a", 1, SPRING), ("a", 2, SPRING + 23 * HOUR - 1), SPRING + 23 * HOUR],
        [("a", *days(SPRING, 23), 3)], id="the-day-on-which-summer-time-begins",
    ),
    pytest.param(
        BERLIN, {}, [("a", 1, AUTUMN), ("a", 2, AUTUMN + 25 * HOUR - 1), AUTUMN + 25 * HOUR],
        [("a", *days(AUTUMN, 25), 3)], id="the-day-on-which-summer-time-ends",
    ),
    pytest.param(
        TUMBLING, {}, [("a", 1, 0), ("b", 2, 0), 10],
        [("a", 0, 10, 1), ("b", 0, 10, 2)], id="each-key-has-its-own",
    ),
    # ---- when it fires
    pytest.param(TUMBLING, {}, [("a", 1, 0), 9], [], id="not-before-the-watermark-is-at-its-end"),
    pytest.param(
        TUMBLING, {}, [("a", 1, 0), 10], [("a", 0, 10, 1)], id="when-the-watermark-is-at-its-end"
    ),
    pytest.param(
        TUMBLING, {}, [("a", 1, 0), 10, 20, 90], [("a", 0, 10, 1)], id="once-and-nothing-of-gaps"
    ),
    pytest.param(
        TUMBLING, {}, [("a", 1, 25), ("a", 2, 5), ("a", 4, 15), 90],
        [("a", 0, 10, 2), ("a", 10, 20, 4), ("a", 20, 30, 1)], id="in-the-order-of-their-ends",
    ),
    # ---- what is late
    pytest.param(
        TUMBLING, {}, [("a", 1, 10), 15, ("a", 2, 12), 20],
        [("a", 10, 20, 3)], id="below-the-watermark-is-not-late-while-its-window-is-open",
    ),
    pytest.param(
        TUMBLING, {}, [("a", 1, 10), 15, ("a", 2, 9)],
        [("late", 9, 0, 10)], id="late-is-what-has-a-window-that-has-ended",
    ),
    pytest.param(
        TUMBLING, LATENESS, [("a", 1, 0), 10, ("a", 2, 1), ("a", 4, 2), 29, ("a", 8, 3)],
        [
            ("a", 0, 10, 1, "on_time", 0), ("a", 0, 10, 3, "late", 1), ("a", 0, 10, 7, "late", 2),
            ("a", 0, 10, 15, "late", 3),
        ],
        id="what-is-late-within-lateness-fires-each-time",
    ),
    pytest.param(
        TUMBLING, LATENESS, [("a", 1, 0), 30, ("a", 2, 1)],
        [("a", 0, 10, 1, "on_time", 0), ("late", 1, 0, 10)], id="gone-at-end-plus-lateness",
    ),
    pytest.param(
        TUMBLING, LATENESS, [15, ("a", 2, 1), 16],
        [("a", 0, 10, 2, "on_time", 0)], id="a-window-that-begins-late-has-its-first-pane",
    ),
    pytest.param(
        SLIDING, {}, [("a", 1, 7), 10, ("a", 2, 8), 15],
        [("a", 0, 10, 1), ("a", 5, 15, 3)], id="late-for-one-window-and-in-time-for-the-next",
    ),
    # ---- sessions
    pytest.param(
        SESSION, {}, [("a", 1, 0), ("a", 2, 11), 90],
        [("a", 0, 10, 1), ("a", 11, 21, 2)], id="sessions-apart",
    ),
    pytest.param(
        SESSION, {}, [("a", 1, 0), ("a", 2, 10), 90], [("a", 0, 20, 3)], id="sessions-that-touch"
    ),
    pytest.param(
        SESSION, {}, [("a", 1, 0), ("a", 2, 18), ("a", 4, 9), 90],
        [("a", 0, 28, 7)], id="a-session-between-two-makes-them-one",
    ),
    pytest.param(SESSION, {}, [("a", 1, 0), 10], [], id="a-session-waits-for-what-touches-its-end"),
    pytest.param(
        SESSION, {}, [("a", 1, 0), 8, ("a", 2, -5), 90],
        [("a", -5, 10, 3)], id="late-alone-and-in-time-as-part-of-a-session",
    ),
    pytest.param(
        SESSION, {}, [("a", 1, 90), 50, ("a", 2, 0)],
        [("late", 0, 0, 10)], id="a-session-of-its-own-that-has-ended",
    ),
    pytest.param(
        SESSION, LATENESS, [("a", 1, 0), 15, ("a", 2, 2)],
        [("a", 0, 10, 1, "on_time", 0), ("a", 0, 12, 3, "late", 1)],
        id="a-session-that-has-fired-grows-within-lateness",
    ),
    pytest.param(
        SESSION, LATENESS, [("a", 1, 0), 15, ("a", 2, 9), 19, 20],
        [("a", 0, 10, 1, "on_time", 0), ("a", 0, 19, 3, "on_time", 1)],
        id="a-session-that-has-fired-is-open-again",
    ),
    pytest.param(
        SESSION, {}, [("a", 1, 0), ("b", 2, 9), 90],
        [("a", 0, 10, 1), ("b", 9, 19, 2)], id="sessions-of-other-keys-do-not-merge",
    ),
    # ---- panes
    pytest.param(
        TUMBLING, {"emitEvery": "1s"}, [("a", 1, 0), "2s", ("a", 2, 1), "2s", ("a", 4, 2), 10],
        [("a", 0, 10, 1, "early", 0), ("a", 0, 10, 3, "early", 1), ("a", 0, 10, 7, "on_time", 2)],
        id="panes-accumulate-and-are-numbered",
    ),
    pytest.param(
        TUMBLING, {"emitEvery": "1s"}, [("a", 1, 0), "2s", "2s", "2s", 10],
        [("a", 0, 10, 1, "early", 0), ("a", 0, 10, 1, "on_time", 1)],
        id="no-early-pane-without-anything-new-and-one-on-time-in-any-case",
    ),
    pytest.param(
        TUMBLING, {"retract": True, **LATENESS}, [("a", 1, 0), 10, ("a", 2, 1)],
        [
            ("a", 0, 10, 1, "on_time", 0, False), ("a", 0, 10, 1, "on_time", 0, True),
            ("a", 0, 10, 3, "late", 1, False),
        ],
        id="accumulating-and-retracting",
    ),
    pytest.param(
        TUMBLING, {"emit": "final", **LATENESS}, [("a", 1, 0), 10, ("a", 2, 1), 29, 30],
        [("a", 0, 10, 3)], id="only-the-last-pane-when-the-window-closes",
    ),
    # ---- by count
    pytest.param(
        {"type": "count", "size": 2}, {}, [("a", 1, 5), ("b", 2, 0), ("a", 4, 3), ("a", 8, 4), 90],
        [("a", 3, 5, 5)], id="every-n-tuples-of-a-key-whatever-their-times-and-no-rest",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("window", "config", "steps", "outcome"), RULES)
def test_rules(window, config, steps, outcome):
    conf = {"time": "at", "unit": "ms", "key": ["user"], "aggregates": {"total": "sum(amount)"}}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf={**conf, "window": window, **config})
    for step in steps:
        if isinstance(step, tuple):
            bolt.execute(list(step))
        elif isinstance(step, str):
            bolt.advance(seconds=float(step.removesuffix("s")))
        else:
            bolt.advance(watermark=step)
            bolt.end_batch()
    found = [
        ("late", *map(plain, one.values[1:]))
        if one.stream == "late"
        else tuple(map(plain, one.values))
        for one in bolt.emitted
    ]
    assert found == outcome
    assert bolt.errors == []
