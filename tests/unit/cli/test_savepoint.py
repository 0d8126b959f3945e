"""`fulmen savepoint`: states that stay, copies of them, and going back."""

import json
import socket
import subprocess

import pytest

from fulmen.checkpoint import CommitLog, Store
from fulmen.engine.driver.checkpoints.savepoints import ASKED
from support.cli.cli_runs import write_letters

RUN = ("--in-process", "--until-drained", "--checkpoint", "kept")


@pytest.fixture
def file(fulmen, tmp_path):
    """A topology whose checkpoint, in the folder `kept`, has 13 letters of each of two tasks."""
    file = write_letters(tmp_path, {"count": 13})
    assert fulmen("run", file, *RUN).exit_code == 0
    return file


def counts(fulmen, checkpoint="kept"):
    return sorted(fulmen("state", "get", checkpoint, "count").stdout.split())


def test_a_topology_goes_back_to_a_savepoint_and_reads_again_what_came_after_it(fulmen, file):
    assert fulmen("savepoint", "create", "kept", "before", "--stopped").exit_code == 0
    early = counts(fulmen)
    more = ("--set", "spec.config.count=26")
    assert fulmen("run", file, *RUN, *more).exit_code == 0
    late = counts(fulmen)
    assert late != early
    told = fulmen("savepoint", "restore", "kept", "before")
    assert "went back to savepoint 'before', the state of commit " in told.stderr
    assert counts(fulmen) == early
    assert fulmen("run", file, *RUN, *more).exit_code == 0
    assert counts(fulmen) == late
    result = fulmen("run", file, *RUN, "--restore-from", "before")
    assert result.exit_code == 0
    assert counts(fulmen) == early


def test_an_export_becomes_the_checkpoint_of_another_topology(fulmen, file, tmp_path):
    fulmen("savepoint", "create", "kept", "before", "--stopped")
    assert fulmen("savepoint", "export", "kept", "before", "x.tar").exit_code == 0
    result = fulmen("savepoint", "import", "x.tar", "copy", "--topology", "others/copy")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "restored savepoint x.tar of topology 'letters', the state of commit " in result.stderr
    assert counts(fulmen, "copy") == counts(fulmen)
    again = fulmen("savepoint", "import", "x.tar", "copy", "--topology", "others/copy")
    assert again.exit_code == 1
    assert "copy is not empty, so x.tar can't be restored into it." in again.stderr
    copy = (
        "--in-process",
        "--until-drained",
        "--checkpoint",
        "third",
        "--restore-from",
        "kept#before",
    )
    assert fulmen("run", file, *copy).exit_code == 0
    assert counts(fulmen, "third") == counts(fulmen)


def test_savepoints_are_listed_shown_and_deleted(fulmen, file):
    assert fulmen("savepoint", "list", "kept").stdout == ""
    fulmen("savepoint", "create", "kept", "b", "--stopped", "--why", "a deployment")
    fulmen("savepoint", "create", "kept", "a", "--stopped")
    lines = fulmen("savepoint", "list", "kept").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["b", "a"]
    assert lines[0].endswith("  a deployment")
    shown = json.loads(fulmen("savepoint", "show", "kept", "b").stdout)
    assert (shown["name"], shown["why"], shown["topology"]) == ("b", "a deployment", "letters")
    assert shown["missing objects"] == []
    twice = fulmen("savepoint", "create", "kept", "a", "--stopped")
    assert (twice.exit_code, "there is a savepoint 'a' already" in twice.stderr) == (2, True)
    assert fulmen("savepoint", "delete", "kept", "a", "b", "--stopped").exit_code == 0
    gone = fulmen("savepoint", "delete", "kept", "a", "--stopped")
    assert (gone.exit_code, "there is no savepoint 'a'. Savepoints: none." in gone.stderr) == (
        1,
        True,
    )
    assert json.loads(fulmen("savepoint", "list", "kept", "-o", "json").stdout) == []


def test_without_a_driver_nothing_is_made_and_nothing_stays_asked_for(fulmen, file, tmp_path):
    result = fulmen("savepoint", "create", "kept", "x", "--wait", "0")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: no driver has answered within 0 s. If the topology does not run, give --stopped; if"
        " it is slow, a larger --wait.\n",
    )
    assert Store.open(str(tmp_path / "kept")).list(ASKED) == []


def test_a_topology_that_runs_on_this_machine_is_left_alone(fulmen, file, tmp_path):
    fulmen("savepoint", "create", "kept", "a", "--stopped")
    with subprocess.Popen(["sleep", "60"]) as process:
        who = f"{socket.gethostname()}, process {process.pid}, since 2026-01-31 12:00:00"
        CommitLog(Store.open((tmp_path / "kept").as_uri()), "letters", who).claim()
        running = f"runs on this machine (process {process.pid})"
        refused = fulmen("savepoint", "restore", "kept", "a")
        assert (refused.exit_code, running in refused.stderr) == (1, True)
        refused = fulmen("savepoint", "create", "kept", "b", "--stopped")
        assert (refused.exit_code, running in refused.stderr) == (2, True)
        assert fulmen("savepoint", "restore", "kept", "a", "--end-driver").exit_code == 0
        process.kill()
