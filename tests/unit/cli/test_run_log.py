"""The folders of runs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fulmen.cli.local.run_log import RUNS_KEPT, RunLog, runs_folder

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def make(tmp_path):
    """Makes the log of the n-th run."""
    return lambda n: RunLog(tmp_path / "runs", "words", START + timedelta(seconds=n))


def test_a_log_is_kept(make):
    with make(0) as log:
        assert not log.has_something
        log.write("one\n")
        log.write("two")
    assert log.file.read_text() == "one\ntwo\n"


def test_what_is_no_text_in_utf_8_is_written_escaped(make):
    with make(0) as log:
        log.write("bad \udcff")
    assert log.file.read_text() == "bad \\udcff\n"


def test_an_empty_log_is_not_kept(make, tmp_path):
    with make(0):
        pass
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_last_ten_are_kept(make, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "somebody's").mkdir()
    for n in range(RUNS_KEPT + 3):
        with make(n) as log:
            log.write("x")
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert [name[:15] for name in folders] == [
        *(f"20260101-0000{n:02}" for n in range(3, RUNS_KEPT + 3)),
        "somebody's",
    ]


def test_a_run_that_goes_on_keeps_its_folder(make):
    with make(0) as log:
        for n in range(1, RUNS_KEPT + 3):
            with make(n) as other:
                other.write("x")
        assert log.folder.exists()


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "/home/ann/.local/state/fulmen/runs"),
        ({"XDG_STATE_HOME": "/var/ann"}, "/var/ann/fulmen/runs"),
        ({"XDG_STATE_HOME": "not/absolute"}, "/home/ann/.local/state/fulmen/runs"),
    ],
)
def test_where(environment, folder):
    assert runs_folder(environment, Path("/home/ann")) == Path(folder)
