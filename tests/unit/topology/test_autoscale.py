"""What is wrong with `spec.autoscale`; and a topology with another number of workers."""

import pytest

from fulmen.plan import make_plan
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.scaling import executors_on, scaled
from fulmen.topology.validation.check import check
from support.cli.documents import word_count


def problems(changes):
    found = [*check(word_count(changes), import_classes=False).problems]
    return [f"{problem.severity} {problem.path}: {problem.message}" for problem in found]


WHERE = "spec.autoscale"
HOURS = {"start": "07:30", "end": "18:00", "minWorkers": 2}


@pytest.mark.parametrize(
    ("scale", "others", "wrong"),
    [
        pytest.param({"maxWorkers": 2}, {}, [], id="the-maximum-alone"),
        pytest.param(
            {
                "minWorkers": 1,
                "maxWorkers": 3,
                "targetCapacity": 0.9,
                "maxLag": "5m",
                "upAfter": "0",
                "downAfter": "1h",
                "schedule": [HOURS, {**HOURS, "start": "22:00", "days": ["Sat", "Sun"]}],
            },
            {},
            [],
            id="all",
        ),
        pytest.param(
            {
                "minWorkers": 4,
                "maxWorkers": 3,
                "targetCapacity": 2,
                "maxLag": "0",
                "schedule": [
                    {**HOURS, "timezone": "Europe/Berlinn", "minWorkers": 5, "end": "07:30"}
                ],
            },
            {"spec.workers": 9},
            [
                f"error {WHERE}.targetCapacity: targetCapacity is 2, but must be at most 0.95",
                f"error {WHERE}.minWorkers: minWorkers is 4, but maxWorkers is 3",
                "warning spec.workers: workers is 9, but maxWorkers is 3: it begins with 3",
                f"error {WHERE}.maxLag: a maxLag of 0 is never kept, as every message waits a"
                " little",
                f"error {WHERE}.schedule[0].minWorkers: minWorkers is 5, but maxWorkers is 3",
                f"error {WHERE}.schedule[0].end: the hours begin and end at 07:30",
                f"error {WHERE}.schedule[0].timezone: there is no time zone 'Europe/Berlinn'",
            ],
            id="all-mistakes-at-once",
        ),
        pytest.param(
            {
                "minWorkers": 4,
                "maxWorkers": "2",
                "maxLag": "0",
                "schedule": [
                    {**HOURS, "end": "07:30", "days": ["Monday"]},
                    "18:00",
                    {"start": "01:00", "end": 1, "timezone": "UTT"},
                ],
            },
            {"spec.workers": 9},
            [
                f"error {WHERE}.maxWorkers: maxWorkers is '2', but must be a whole number",
                f"error {WHERE}.schedule[0].days[0]: days[0] is 'Monday', but must be one of Mon,"
                " Tue, Wed, Thu, Fri, Sat, Sun",
                f"error {WHERE}.schedule[1]: schedule[1] is '18:00', but must be a mapping",
                f"error {WHERE}.schedule[2].end: end is 1, but must be text",
                f"error {WHERE}.schedule[2].minWorkers: 'minWorkers' is missing",
                f"error {WHERE}.maxLag: a maxLag of 0 is never kept, as every message waits a"
                " little",
                f"error {WHERE}.schedule[0].end: the hours begin and end at 07:30",
                f"error {WHERE}.schedule[2].timezone: there is no time zone 'UTT'",
            ],
            id="what-is-wrong-by-itself-hides-no-other-mistakes",
        ),
        pytest.param(
            {"maxWorkers": 99},
            {},
            [
                f"error {WHERE}.maxWorkers: maxWorkers is 99, but all components together have"
                " 7 tasks: the other workers would host nothing"
            ],
            id="more-workers-than-tasks",
        ),
        pytest.param(
            {"maxWorkers": 3},
            {"spec.deployment": "single-pod", "spec.slots": 2},
            [
                f"error {WHERE}.maxWorkers: maxWorkers is 3, but deployment: single-pod has room"
                " for slots: 2"
            ],
            id="more-workers-than-one-pod-has-slots",
        ),
        pytest.param(
            {"maxWorkers": 2, "schedule": [{"start": "7:30", "end": "24:00"}]},
            {},
            [
                f"error {WHERE}.schedule[0].start: start is '7:30', but must be a time of day,"
                " such as 07:30",
                f"error {WHERE}.schedule[0].end: end is '24:00', but must be a time of day,"
                " such as 07:30",
                f"error {WHERE}.schedule[0].minWorkers: 'minWorkers' is missing",
            ],
            id="hours",
        ),
    ],
)
def test_mistakes(scale, others, wrong):
    assert problems({"spec.autoscale": scale, **others}) == wrong


def test_a_checkpoint_knows_how_many_tasks_there_are():
    document = word_count({"spec.autoscale": {"maxWorkers": 11}})
    assert check(document, import_classes=False, checkpoint_tasks={"split": 8}).problems == ()


# ---- a topology with another number of workers


@pytest.mark.parametrize(
    ("workers", "parallelism", "tasks", "executors"),
    [
        (1, 1, 8, 1),
        (3, 1, 8, 3),
        (9, 1, 8, 8),
        (3, 4, 8, 6),
        (4, 4, 8, 4),
        (2, 16, 16, 16),
        (5, 1, 1, 1),
    ],
)
def test_each_worker_has_as_many_executors(workers, parallelism, tasks, executors):
    assert executors_on(workers, parallelism, tasks) == executors


def test_numbers_of_tasks_stay_also_those_that_nobody_wrote():
    topology = parse(word_count({"spec.bolts.1.numTasks": 6}))
    before = make_plan(topology)
    after = make_plan(scaled(topology, 3))
    for component in ("sentences", "split", "count"):
        assert len(before.tasks(component)) == len(after.tasks(component))
    assert (after.workers, len(after.workers_of("count"))) == (3, 3)


def test_a_topology_whose_number_nobody_chose_is_left_as_it_is():
    topology = parse(word_count({}))
    assert scaled(topology, None) is topology
