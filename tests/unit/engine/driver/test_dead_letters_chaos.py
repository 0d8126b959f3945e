"""Dead letters in a world in which anything dies: sent once for each time that somebody asks."""

import json
from collections import Counter
from unittest import mock

import pytest

from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.letters import replay_letters
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.engine.state.letters.message_lines import MessageLineReader, SentFrom
from fulmen.errors import CheckpointError, Unreachable
from fulmen.testing import ManualClock
from support.lives.chaos import Chaos, DriverDied, chaotic
from support.parts.refusing import LIMIT, Counts, Mended, refusing
from support.runs.engine_runs import A_PERSON, Steady, make_driver, new_store, state_of
from support.suite import seeds

LIVES = 12
DEAD = {2, 3}
SENT = (7, 8)


def run_to_its_end(topology, chaos, store, ask=lambda driver: None):
    """The last driver. Each is asked for something when it has started."""
    clock = ManualClock()
    while True:
        try:
            jobs = Steady(clock, 0.25, chaos.fault, store)
            driver = make_driver(
                topology, store=chaotic(store, chaos), clock=clock, jobs=jobs
            ).start()
            chaos.crashes = lambda driver=driver: driver.coordinator.blame.crashes
            ask(driver)
            driver.run(Stop(when_drained=True))
        except (DriverDied, Unreachable):
            chaos.lives += 1
            continue
        chaos.left = 0  # what is looked at now is there
        driver.close()
        return driver


def kept(store):
    return read_letters(store).letters


def ask_in_checkpoint(store, chaos):
    """Ask until it is known to be in the checkpoint, as a person does whose command has failed."""
    while True:
        try:
            ids = [str(one.id) for one in kept(store)]
            replay_letters(chaotic(store, chaos), ids, A_PERSON)
        except (DriverDied, Unreachable, CheckpointError):
            chaos.lives += 1
            continue
        return


def ask_driver(driver):
    """Ask for what was never sent; whether that is done this driver may never tell."""
    letters = driver._taps.letters
    ids = {str(one.id) for one in letters.read().letters if not one.letter.replays}
    letters.ask(ids, A_PERSON, 0.0)


def send_to_driver(driver):
    """Send messages of a file; whether that is done this driver may never tell."""
    reader = MessageLineReader(SentFrom("source", "", ["source"]), 0.0)
    reader.read("file", [json.dumps({"values": [number]}) for number in SENT])
    [part] = reader.parts
    driver._taps.letters.send(part, A_PERSON, 0.0)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.matrix(share=1 / 3)
@pytest.mark.parametrize("way", ["stopped", "running", "file"])
def test_each_letter_is_sent_once_and_gone_when_it_is_acked_whatever_dies(way):
    seen = Counter()
    for seed in seeds.several(LIVES):
        with seeds.generator(seed) as rng:
            spec = {
                "message_timeout_seconds": 10_000,
                "workers": rng.randint(1, 2),
                "ackers": rng.randint(1, 2),
            }
            store = new_store()

            def world(rng=rng):
                chaos = Chaos(rng.random(), faults=15, rate=0.05)
                chaos.lives = 0
                return chaos

            with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
                chaos = world()
                run_to_its_end(refusing(Counts, **spec).build(), chaos, store)
                assert {one.letter.shown[0] for one in kept(store)} == DEAD
                seen["dead"] += chaos.lives
                chaos = world()
                if way == "stopped":
                    ask_in_checkpoint(store, chaos)
                ask = {"running": ask_driver, "file": send_to_driver}.get(way, lambda driver: None)
                driver = run_to_its_end(refusing(Mended, **spec).build(), chaos, store, ask)
            seen["replayed"] += chaos.lives
            is_file = way == "file"
            counted = [*({*range(LIMIT)} - DEAD), *SENT] if is_file else range(LIMIT)
            assert state_of(driver, "count") == dict.fromkeys(counted, 1)
            assert {one.letter.shown[0] for one in kept(store)} == (DEAD if is_file else set())
    assert min(seen["dead"], seen["replayed"]) > 0
