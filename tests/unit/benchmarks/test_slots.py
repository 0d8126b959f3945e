"""The model of what workers cost, by how many of them share a JVM."""

import pytest
from benchmarks.slots import LAYOUTS, fit, predict

STAGES = 3
STAGE_MS = 6.0


def layout(workers, count):
    """What would be measured if the model were exact."""
    jvms = -(-workers // count)
    driver = 1.0 + 0.5 * workers
    driver_jvm = 4.0 + 1.5 * STAGES * workers + 0.5 * STAGES * jvms
    return {
        "workers": workers,
        "slots": count,
        "stages": STAGES,
        "batch_p50_ms": STAGES * STAGE_MS + driver + driver_jvm / 2,
        "cpu_ms_a_batch": {
            "driver": driver,
            "driver-jvm": driver_jvm,
            "worker-jvm": 2.0 * STAGES * workers + 3.0 * STAGES * jvms,
            "python": 0.8 * STAGES * workers,
        },
        "megabytes": {"driver": 500, "worker-jvm": 200 * jvms, "python": 90 * workers},
    }


def test_the_constants_are_found():
    found = fit([layout(*which) for which in LAYOUTS])
    assert found == pytest.approx(
        {
            "driver_ms": 1.0,
            "driver_ms_a_worker": 0.5,
            "driver_jvm_ms": 4.0,
            "driver_jvm_ms_a_task": 1.5,
            "driver_jvm_ms_a_stage_of_a_jvm": 0.5,
            "worker_jvm_ms_a_task": 2.0,
            "worker_jvm_ms_a_stage_of_a_jvm": 3.0,
            "python_ms_a_task": 0.8,
            "mb": 500,
            "mb_a_jvm": 200,
            "mb_a_worker": 90,
            "stage_ms": STAGE_MS,
        }
    )


def test_no_constant_is_negative():
    rows = [layout(*which) for which in LAYOUTS]
    for row in rows:
        row["megabytes"] = {"python": 100 * row["workers"] - 50}
    found = fit(rows)
    assert found["mb"] == 0
    assert found["mb_a_worker"] > 0


def test_more_slots_need_less_time_and_memory_by_the_model():
    model = fit([layout(*which) for which in LAYOUTS])
    one, four = (predict(model, 100, count)["by_the_model"] for count in (1, 4))
    # 3 times 6 ms, 1 + 100 times 0.5 ms, and half of 4 + 300 times 1.5 + 3 times JVMs times 0.5 ms
    assert (one["batch_ms"], four["batch_ms"]) == (371, 315)
    assert (one["megabytes"], four["megabytes"]) == (29_500, 14_500)
