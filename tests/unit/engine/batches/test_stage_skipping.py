"""Which stages a light batch leaves out, and how long it rests."""

from dataclasses import replace

import pytest

from fulmen.api.transactions import TransactionAttempt
from fulmen.engine.batches.pace.stage_skipping import StageSkipping
from fulmen.engine.protocol.header import Header, Injected
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.protocol.transaction_work import TransactionWork
from support.runs.coordinators import batch_of, placed

HEADER = Header(8, "tag", "base", clock=101.0, previous_clock=100.0, default_permit=64)
WHOLE, WITHOUT_ACKERS, SPOUTS_FIRST = (3,), (2, 3), (1, 2, 3)


def ran(skipping, header=HEADER, skipped=(), seconds=0.1, is_full=False, run="run"):
    done, made = batch_of(header=header, skipped=skipped), replace(placed(), run=run)
    skipping.committed(done, made, seconds, is_full=is_full)
    return skipping


def cuts(skipping, header=HEADER, made=None, emits=0, pending=0, is_idle=False):
    made = made or placed(workers=2)
    return skipping.cuts(made, header, emits=emits, pending=pending, is_idle=is_idle)


@pytest.mark.parametrize(
    ("changes", "emits", "pending", "ends"),
    [
        pytest.param({}, 0, 0, WITHOUT_ACKERS, id="usual"),
        pytest.param({}, LIMITS.light_emits, 0, WITHOUT_ACKERS, id="most-emits"),
        pytest.param({}, LIMITS.light_emits + 1, 0, WHOLE, id="too-many-emits"),
        pytest.param({}, 0, 1, WHOLE, id="ackers-hold-a-tree"),
        pytest.param({"is_retry": True}, 0, 0, WHOLE, id="retry"),
        pytest.param({"permits": {4: 1}}, 0, 0, WHOLE, id="suspect"),
        pytest.param({"drains": True}, 0, 0, WHOLE, id="drains"),
        pytest.param({"deliveries": None}, 0, 0, WHOLE, id="large-deliveries"),
        pytest.param(
            {"transactions": TransactionWork([], TransactionAttempt(1, 1), [], 0)},
            0,
            0,
            WHOLE,
            id="transaction",
        ),
    ],
)
def test_a_light_batch_begins_without_ackers(changes, emits, pending, ends):
    skipping = ran(StageSkipping())
    assert cuts(skipping, replace(HEADER, **changes), emits=emits, pending=pending) == ends


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param({}, SPOUTS_FIRST, id="nothing"),
        pytest.param({"deliveries": {1: ()}}, WITHOUT_ACKERS, id="deliveries"),
        pytest.param({"injected": Injected({0: [b"row"]})}, WITHOUT_ACKERS, id="row-of-a-pinned"),
        pytest.param({"injected": Injected(file="rows")}, WITHOUT_ACKERS, id="many-rows-of-pinned"),
        pytest.param({"clock": 109.9}, SPOUTS_FIRST, id="no-tick-yet"),
        pytest.param({"clock": 110.0}, WITHOUT_ACKERS, id="tick"),
    ],
)
def test_after_a_batch_in_which_nothing_happened_it_begins_with_spouts_alone(changes, ends):
    ticking = placed(workers=2, tick_seconds=10)
    skipping = ran(StageSkipping())
    assert cuts(skipping, replace(HEADER, **changes), ticking, is_idle=True) == ends


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        pytest.param({}, (), id="nothing"),
        pytest.param({"deliveries": {1: ()}}, (), id="deliveries-to-a-pinned-spout"),
        pytest.param({"deliveries": {9: ()}}, (1,), id="deliveries-to-another"),
        pytest.param({"injected": Injected({0: [b"row"]})}, (1,), id="row"),
        pytest.param({"injected": Injected(file="rows")}, (1,), id="many-rows"),
        pytest.param({"taps": (None,)}, (1,), id="tap"),
        pytest.param({"clock": 110.0}, (1,), id="tick"),
        pytest.param({"is_retry": True}, (1,), id="retry"),
        pytest.param({"drains": True}, (1,), id="drains"),
    ],
)
def test_a_batch_without_anything_for_workers_has_no_job_if_the_driver_hosts_all_spouts(
    changes, ends
):
    hosted = placed(pinned=("source",), tick_seconds=10)
    header = replace(HEADER, **changes)
    found = ran(StageSkipping()).cuts(
        hosted, header, emits=0, pending=0, is_idle=False, is_spouts_alone=True
    )
    assert found == ends


def test_workers_are_asked_if_they_have_a_spout():
    found = ran(StageSkipping()).cuts(
        placed(workers=2), HEADER, emits=0, pending=0, is_idle=False, is_spouts_alone=True
    )
    assert found == WITHOUT_ACKERS


def test_the_first_batches_of_a_run_are_whole_until_one_of_them_left_nothing_out():
    skipping = StageSkipping()
    assert cuts(skipping) == WHOLE
    assert cuts(ran(skipping, run="before")) == WHOLE
    assert cuts(ran(skipping, skipped=[2])) == WHOLE
    assert cuts(ran(skipping)) == WITHOUT_ACKERS
    assert cuts(ran(skipping, skipped=[2])) == WITHOUT_ACKERS


def test_only_a_light_batch_of_one_stage_is_followed_by_a_rest():
    skipping, one_stage = ran(StageSkipping()), placed()
    for pending, rest in ((0, 0.025), (1, 0.0), (0, 0.025)):
        assert cuts(skipping, made=one_stage, pending=pending) == (1,)
        assert ran(skipping).rest_seconds == pytest.approx(rest)
