"""What the summaries of a batch say about its work."""

from collections import Counter

import pytest

from fulmen.engine.batches.summaries import (
    BYTES_PER_SECOND,
    ENGINE_SHARE,
    seconds_with_processors,
    work_seconds,
)
from fulmen.engine.protocol.figures.statistics import CHECKPOINT_BYTES
from fulmen.engine.protocol.summary import Summary


@pytest.mark.parametrize(
    ("summaries", "seconds"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([Summary(0, 0, seconds=3), Summary(0, 1, seconds=1)], 3, id="slow-one-first"),
        pytest.param([Summary(0, 0, seconds=100, cpu_seconds=2)], 2 * ENGINE_SHARE, id="cpu"),
        pytest.param([Summary(0, 0, seconds=100, busy={1: 2, 4: 1})], 3, id="waiting"),
        pytest.param(
            [Summary(0, 0, seconds=100, busy={1: 2, 4: 1}, cpu_seconds=2)],
            3 + 2 * ENGINE_SHARE,
            id="waiting-and-cpu",
        ),
        pytest.param([Summary(0, 0, seconds=100, busy={1: 4}, cpu_seconds=2)], 14, id="half-cpu"),
        pytest.param([Summary(0, 0, seconds=100, busy={1: 5}, cpu_seconds=2)], 7, id="waits-more"),
        pytest.param(
            [
                Summary(
                    0,
                    0,
                    seconds=100,
                    moved_bytes=int(BYTES_PER_SECOND),
                    counts=Counter({("", CHECKPOINT_BYTES, "state"): int(2 * BYTES_PER_SECOND)}),
                )
            ],
            3,
            id="bytes",
        ),
        pytest.param(
            [Summary(stage, 0, seconds=100, cpu_seconds=1) for stage in range(3)],
            3 * ENGINE_SHARE,
            id="a-worker-in-all-its-stages",
        ),
        pytest.param(
            [Summary(0, worker, seconds=100, cpu_seconds=worker) for worker in range(3)],
            2 * ENGINE_SHARE,
            id="the-worker-that-did-most",
        ),
        pytest.param(
            [Summary(0, 0, seconds=100, run_delay=98, busy={1: 60}, cpu_seconds=2)],
            2,
            id="no-processor",
        ),
        pytest.param(
            [
                Summary(0, 0, seconds=100, run_delay=90, cpu_seconds=1),
                Summary(0, 1, seconds=50, run_delay=10, cpu_seconds=40),
            ],
            40,
            id="the-worker-that-had-most-to-do",
        ),
        pytest.param(
            [Summary(0, 0, seconds=100, run_delay=8, busy={1: 50}, cpu_seconds=1)],
            43,
            id="no-processor-and-waiting",
        ),
    ],
)
def test_a_batch_is_work_as_far_as_something_was_done_or_moved(summaries, seconds):
    assert work_seconds(summaries) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("summaries", "seconds"),
    [
        pytest.param([Summary(0, 0, seconds=3, cpu_seconds=1)], 10, id="it-had-one-all-the-time"),
        pytest.param(
            [
                Summary(0, 0, seconds=3, run_delay=2, cpu_seconds=1),
                Summary(1, 0, seconds=4, run_delay=1, cpu_seconds=0.5),
                Summary(1, 1, seconds=1, run_delay=0.5, cpu_seconds=0.25),
            ],
            1 + 3 + 3 * 1.75 / 5.25,
            id="spark-had-one-as-often-as-workers",
        ),
    ],
)
def test_a_batch_lasts_as_long_as_it_would_if_it_always_had_a_processor(summaries, seconds):
    assert seconds_with_processors(summaries, 10) == pytest.approx(seconds)
