"""Entries of authors' loggers: where they go, and from which level on."""

import logging
import os
import subprocess
import sys

import pytest

from fulmen.engine.worker.author_logs import LEVEL_ENV, levels, logged_to, set_levels
from fulmen.engine.worker.process import LOG_FILE


@pytest.fixture(autouse=True)
def loggers():
    """Levels and handlers as they were afterwards."""
    named = [logging.getLogger(name) for name in ("", "shop", "kafka")]
    before = [(logger, logger.level, logger.handlers[:]) for logger in named]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {"": "INFO"}),
        ("warning", {"": "WARNING"}),
        ("shop=DEBUG", {"": "INFO", "shop": "DEBUG"}),
        ("ERROR, shop.orders = debug,", {"": "ERROR", "shop.orders": "DEBUG"}),
    ],
)
def test_levels_of_all_loggers_and_of_some(text, found):
    assert levels(text) == (found, [])


@pytest.mark.parametrize("text", ["LOUD", "shop=", "shop"])
def test_what_is_no_level_is_told_and_left_out(text):
    found, [message] = levels(f"{text},kafka=ERROR")

    assert found == {"": "INFO", "kafka": "ERROR"}
    assert repr(text) in message
    assert "DEBUG, INFO, WARNING" in message


def test_a_wrong_level_is_logged(caplog):
    set_levels({LEVEL_ENV: "LOUD"})

    assert "'LOUD' has no level" in caplog.text


def test_entries_go_to_the_log_of_the_run_and_later_no_more(monkeypatch):
    monkeypatch.setenv(LEVEL_ENV, "kafka=ERROR")
    lines = []
    with logged_to(lines.append):
        logging.getLogger("shop").info("sold %d", 3)
        logging.getLogger("shop").debug("too much")
        logging.getLogger("kafka").warning("too much")
    logging.getLogger("shop").error("later")

    [line] = lines
    assert line.endswith(" INFO shop: sold 3")


WORKER = """
from fulmen.engine.worker import process
process.adopt()
import logging
logging.getLogger("shop").info("sold")
logging.info("by nobody")
logging.getLogger("shop").debug("too much")
"""


def test_a_worker_logs_to_the_log_file(tmp_path):
    log = tmp_path / "log"
    environment = {**os.environ, LOG_FILE: str(log), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", WORKER], env=environment, check=True)

    assert [line.partition(" INFO ")[2] for line in log.read_text().splitlines()] == [
        "shop: sold",
        "root: by nobody",
    ]


def test_a_full_disk_under_the_log_file_ends_no_worker():
    code = f"{WORKER}\nprint('lost')\nimport sys\nsys.stderr.write('lost')\nsys.exit(7)"
    environment = {**os.environ, LOG_FILE: "/dev/full", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 7
