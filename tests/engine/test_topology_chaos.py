"""What is random happens exactly once, whatever is killed, and whenever.

The topology (worlds/unrepeatable.py) can't repeat anything: what it emits is os.urandom. What it
has emitted and received is in its committed state, which must agree after each crash and at last.
Seeds decide about what is killed and when; the moments are those of real processes, so that each
run meets other ones.
"""

import random

import pytest

from support.lives.driver_lives import ChaoticRun

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

STAGES = 4


def worker_faults(rng, workers, count, start=3):
    """Deaths of workers' processes, a few attempts after each other; what, whose, and when."""
    at = start
    for _ in range(count):
        moment = rng.choice(
            [
                {"after": rng.uniform(0, 1.3)},
                {"stage": rng.randrange(2)},
                {"stage": rng.randrange(2, STAGES)},
                {"commit": rng.choice(["before", "after"])},
            ]
        )
        what = rng.choice(["kill jvm", "kill python"])
        yield {"at": at, "what": what, "worker": rng.randrange(workers), **moment}
        if rng.random() < 0.2:  # while its loss is dealt with, another one dies
            yield {"at": at, "what": what, "worker": rng.randrange(workers), "recovery": True}
        at += rng.randint(3, 6)


def driver_fault(rng, what, at):
    """The end of a driver, or its pause."""
    moments = [{"after": rng.uniform(0, 1.3)}, {"commit": "before"}, {"commit": "after"}]
    return {"at": at, "what": what, **rng.choice(moments)}


def live_and_die(run, rng, faults):
    """A driver that goes through some faults, and is killed."""
    faults = list(worker_faults(rng, run.workers, faults))
    driver = run.start([*faults, driver_fault(rng, "die", max(f["at"] for f in faults) + 4)])
    driver.end_killed()
    run.check()


def be_followed(run, rng):
    """A driver that is paused and goes on when another one has taken over; and that other one."""
    old = run.start([driver_fault(rng, "stop", rng.randint(3, 8))])
    old.wait_until_it_stops()
    new = run.start(batches=12)
    new.wait_for_batches(3)
    old.go_on()
    assert "has taken over" in old.end_fenced()
    new.end_drained()
    run.check()


DRIVERS = "drivers that die or are followed, and workers that are killed"


@pytest.mark.matrix(share=1 / 5, name=DRIVERS, cell="folder")
def test_the_last_stages_lose_their_worker_and_drivers_die_while_they_commit(tmp_path):
    with ChaoticRun(tmp_path, workers=4, slots=2) as run:
        first = run.start(
            [
                {"at": 3, "what": "kill jvm", "worker": 3, "stage": 0},
                {"at": 7, "what": "kill python", "worker": 0, "stage": 2},
                {"at": 10, "what": "kill jvm", "worker": 0, "stage": 1},
                {"at": 14, "what": "die", "commit": "before"},
            ]
        )
        first.end_killed()
        run.check()
        second = run.start(
            [
                {"at": 3, "what": "kill jvm", "worker": 1, "commit": "after"},
                {"at": 8, "what": "die", "commit": "after"},
            ]
        )
        second.end_killed()
        run.check()
        run.start(batches=12).end_drained()
        run.check_drained()


@pytest.mark.matrix(share=1 / 5, name=DRIVERS, cell="s3")
def test_on_s3_a_worker_is_killed_and_a_second_driver_takes_over(tmp_path, s3_server, monkeypatch):
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    with ChaoticRun(tmp_path, workers=2, checkpoint=s3_server.uri("chaos")) as run:
        first = run.start([{"at": 3, "what": "kill jvm", "worker": 1, "stage": 1}])
        first.wait_for_batches(6)
        second = run.start(batches=10)
        assert "has taken over" in first.end_fenced()
        second.end_drained()
        run.check_drained()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("seed", "workers", "slots"), [(1, 2, 1), (2, 2, 1), (3, 4, 2), (4, 3, 1), (5, 4, 4)]
)
def test_random_faults_at_random_moments(tmp_path, seed, workers, slots):
    rng = random.Random(seed)
    with ChaoticRun(tmp_path, workers, slots=slots) as run:
        live_and_die(run, rng, faults=4)
        be_followed(run, rng)
        live_and_die(run, rng, faults=3)
        last = run.start(worker_faults(rng, workers, 3), batches=80)
        last.end_drained()
        run.check_drained()
