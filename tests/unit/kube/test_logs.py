"""The log of a driver's pod."""

import json
import logging
import re

import pytest

from fulmen.engine.protocol.summary import ErrorReport
from fulmen.kube.container import logs
from fulmen.kube.driver.event_log import EventLog


@pytest.fixture(autouse=True)
def root():
    """The root logger, as it was afterwards."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def written(capsys):
    """What a driver logs of an error, a mistake of its own and something else."""
    logs.set_up()
    EventLog().note("workers [1] are not there")
    EventLog().error(ErrorReport("count", 3, "KeyError: 'ß'", "Traceback:\n  line 1\n"))
    try:
        raise OSError("no disk")
    except OSError:
        logging.getLogger("fulmen").exception("it ends")
    logging.getLogger("fulmen").info("done: %d %%", 100)
    return capsys.readouterr().err


def test_lines_for_people(capsys, monkeypatch):
    monkeypatch.delenv(logs.FORMAT_ENV, raising=False)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "NOW", written(capsys))
    lines = text.splitlines()
    assert lines[:4] == [
        "NOW WARNING workers [1] are not there",
        "NOW ERROR error in 'count', task 3: KeyError: 'ß'",
        "Traceback:",
        "  line 1",
    ]
    assert lines[-2:] == ["OSError: no disk", "NOW done: 100 %"]


def test_lines_for_people_obey_no_data(capsys, monkeypatch):
    monkeypatch.delenv(logs.FORMAT_ENV, raising=False)
    logs.set_up()
    logging.getLogger("fulmen").warning("%s", "\x1b[2J\nNOW done")
    assert capsys.readouterr().err.endswith("Z WARNING \\u001b[2J NOW done\n")


def test_json_for_programs(capsys, monkeypatch):
    monkeypatch.setenv(logs.FORMAT_ENV, "json")
    entries = [json.loads(line) for line in written(capsys).splitlines()]
    assert all(re.fullmatch(r"[\d-]+T[\d:.]+\+00:00", entry.pop("time")) for entry in entries)
    assert entries[0] == {"level": "WARNING", "message": "workers [1] are not there"}
    assert entries[1] == {
        "level": "ERROR",
        "message": "error in 'count', task 3: KeyError: 'ß'",
        "traceback": "Traceback:\n  line 1",
    }
    assert entries[2]["traceback"].endswith("OSError: no disk")
    assert entries[3] == {"level": "INFO", "message": "done: 100 %"}


def test_the_latest_message_is_what_went_wrong_until_a_batch_counts():
    event_log = EventLog()
    event_log.attempt_failed(7, "worker 1 was lost")
    assert event_log.latest == "batch 7 is run again: worker 1 was lost"
