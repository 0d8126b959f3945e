"""A window, timer, tick or end of a batch that ends its process is left out, and no tuple is."""

from collections import Counter

import pytest

from fulmen.errors import TopologyFailed
from fulmen.testing import run
from support.parts.deadly_calls import BASE, DEADLY, MESSAGES, RESULTS, check, deadly


def test_all_tuples_and_all_other_calls_are_processed_where_some_calls_end_their_process():
    result = run(deadly("kill"))
    check(result.state)
    assert sum(result.state("tick").values()) == MESSAGES
    told = Counter(error.component for error in result.errors if "left out" in error.message)
    assert set(told) == set(RESULTS)
    assert f"left out for key {DEADLY}, at {BASE + 1000 * MESSAGES}: on_timer ends its process" in {
        error.message for error in result.errors
    }


def test_with_on_error_crash_a_topology_ends_when_a_call_would_be_left_out():
    with pytest.raises(TopologyFailed, match=r"bolt '\w+', task \d+: \w+ ends its process"):
        run(deadly("kill", on_error="crash"))
