"""The folders of runs."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fulmen.cli.local.run_log import RUNS_KEPT, RunLog, open_log, runs_folder

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


# ---- where ---------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The temporary folder, which anybody may write to."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def _no_home():
    raise RuntimeError("there is no home")


def _open():
    with open_log("words", {}, _no_home, START) as log:
        log.write("x")
    return log


def test_the_log_is_in_the_temporary_folder_if_there_is_no_home(temporary):
    assert _open().folder.parent == temporary / f"fulmen-runs-{os.geteuid()}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make another user's folder")
def test_the_log_has_a_place_of_its_own_if_somebody_else_has_made_the_usual_one(temporary):
    others = temporary / f"fulmen-runs-{os.geteuid()}"
    others.mkdir(mode=0o777)
    os.chown(others, 4321, -1)
    log = _open()
    assert (log.folder.parent.parent, list(others.iterdir())) == (temporary, [])
    assert log.folder.parent.stat().st_mode & 0o777 == 0o700


def test_a_run_goes_on_if_there_is_no_place_for_its_log(temporary):
    temporary.rmdir()
    temporary.touch()
    log = _open()
    assert (log.folder, log.file) == (None, Path("/dev/null"))


def test_nothing_is_written_through_a_link(make, monkeypatch):
    with make(0) as log:
        (log.folder / "run.log.1").symlink_to(log.folder / "else")
        log.write("x" * 100)
        monkeypatch.setattr("fulmen.cli.local.run_log.LARGEST_BYTES", 10)
        log.rotate()
        assert not (log.folder / "else").exists()


# ---- how large -----------------------------------------------------------------------------------


def test_a_log_that_is_too_large_begins_anew_and_its_end_is_kept(make, monkeypatch):
    monkeypatch.setattr("fulmen.cli.local.run_log.LARGEST_BYTES", 10)
    with make(0) as log, open(log.file, "ab", buffering=0) as of_a_worker:
        log.write("small")
        log.rotate()
        assert log.file.read_bytes() == b"small\n"
        of_a_worker.write(b"0123456789")
        log.rotate()
        of_a_worker.write(b"new")
        assert log.file.read_bytes() == b"new"
        assert (log.folder / "run.log.1").read_bytes() == b"0123456789"


def test_a_log_is_kept_small_while_a_run_goes_on(make, monkeypatch):
    monkeypatch.setattr("fulmen.cli.local.run_log.LARGEST_BYTES", 1)
    monkeypatch.setattr("fulmen.cli.local.run_log.LOOK_SECONDS", 0.01)
    with make(0) as log:
        log.write("much")
        while log.file.stat().st_size:
            pass
        assert (log.folder / "run.log.1").read_text() == "\n"


def test_a_full_disk_under_the_log_fails_nothing(make, monkeypatch):
    monkeypatch.setattr("fulmen.cli.local.run_log.LARGEST_BYTES", 1)
    with make(0) as log:
        log.write("kept")
        (log.folder / "run.log.1").symlink_to("/dev/full")
        log.rotate()
        full = os.open("/dev/full", os.O_RDWR)
        os.dup2(full, log._log)
        os.close(full)
        log.write("lost")
