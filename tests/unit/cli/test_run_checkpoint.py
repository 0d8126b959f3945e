"""`fulmen run` and its checkpoint: carried on, replaced, not fitting."""

import pytest

from fulmen.checkpoint import CommitLog, Store
from fulmen.cli.commands import run as run_module
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.worker.in_process import InProcessJobs
from support.cli.cli_runs import write_letters


@pytest.fixture
def run(fulmen, tmp_path):
    """Runs the letters with a checkpoint in the folder `kept`: run(config, *options)."""
    checkpoint = f"{(tmp_path / 'kept').as_uri()}?fsync=false"

    def run(config=None, *options, **spec):
        file = write_letters(tmp_path, config, **spec)
        options = ["--in-process", "--until-drained", "--checkpoint", checkpoint, *options]
        return fulmen("run", file, *options)

    return run


@pytest.fixture
def uri(tmp_path):
    return f"{(tmp_path / 'kept').as_uri()}?fsync=false"


def counts(uri):
    """Letters and how often they were counted, over all tasks."""
    tasks = read_state(Store.open(uri), "count").tasks.values()
    return {letter: n for task in tasks for letter, n in task.items()}


def test_the_same_checkpoint_carries_on(run, uri):
    assert run({"count": 100}).exit_code == 0
    assert counts(uri) == dict.fromkeys("abcde", 40)
    second = run({"count": 250})
    assert "trees        300 acked, 0 failed" in second.stdout
    assert second.stderr.startswith(f"checkpoint: {uri}, carried on from commit ")
    assert counts(uri) == dict.fromkeys("abcde", 100)


def test_what_was_stopped_at_once_carries_on_exactly(run, uri):
    assert run({"count": 3000, "signals": 2}).exit_code == 1
    assert run({"count": 3000}).exit_code == 0
    assert counts(uri) == dict.fromkeys("abcde", 1200)


def test_the_checkpoint_of_the_topology_is_used(fulmen, tmp_path, uri):
    file = write_letters(tmp_path, checkpoint={"uri": uri})
    result = fulmen("run", file, "--in-process", "--until-drained")
    assert result.stderr == f"checkpoint: {uri}\nletters: starting\n"
    assert counts(uri) == dict.fromkeys("abcde", 400)


def test_a_claim_is_for_clusters(fulmen, tmp_path):
    file = write_letters(tmp_path, checkpoint={"persistentVolumeClaim": "disk"})
    result = fulmen("run", file, "--in-process", "--for", "0")
    assert result.stderr.splitlines()[0] == (
        "checkpoint: a temporary folder, removed at the end (the claim 'disk' is for clusters); to "
        "keep it, --checkpoint"
    )


def test_a_temporary_checkpoint_is_removed(fulmen, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    file = write_letters(tmp_path)
    assert fulmen("run", file, "--in-process", "--until-drained").exit_code == 0
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_number_of_tasks_that_is_not_possible(run):
    assert run().exit_code == 0
    result = run(None, "--set", "spec.bolts[count].numTasks=3")
    assert result.exit_code == 1
    assert "component 'count' can't have 3 instead of 2 tasks: field 'seen' of task 0" in (
        result.stderr
    )


def test_more_executors_keep_the_number_of_tasks(run):
    assert run({"count": 10}).exit_code == 0
    result = run({"count": 20}, "--set", "spec.bolts[count].parallelism=3")
    assert result.exit_code == 0
    assert "count          2" in result.stdout
    assert "warning: spec.bolts[0].parallelism: bolt 'count': parallelism is 3" in result.stderr


def test_the_checkpoint_of_another_topology(run, uri):
    assert run().exit_code == 0
    result = run(None, "--set", "metadata.name=words")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: checkpoint {uri} is that of topology 'letters', not of 'words'. Give each "
        "topology a checkpoint of its own (spec.checkpoint); or, to go on from the state of that"
        " one, which then has none any more, set spec.checkpoint.takeOver to 'letters'.\n",
    )


def test_the_checkpoint_of_another_topology_is_taken_over(run, uri):
    """Into a namespace, and under another name; then it is refused to the one that it was of."""
    assert run().exit_code == 0
    moved = ("--set", "metadata.name=words", "--set", "metadata.namespace=prod")
    assert run(None, *moved, "--set", "spec.checkpoint.takeOver=letters").exit_code == 0
    assert run(None, *moved).exit_code == 0
    assert "is that of topology 'prod/words', not of 'letters'" in run().stderr


def test_mistakes_of_the_topology_come_before_those_of_the_checkpoint(run):
    assert run().exit_code == 0
    result = run(None, "--set", "metadata.name=words", workers=0)
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: spec.workers: workers is 0, but must be at least 1.\n",
    )


def test_a_damaged_checkpoint(run, tmp_path):
    assert run().exit_code == 0
    newest = max((tmp_path / "kept" / "commits").iterdir())
    newest.write_bytes(b"x")
    result = run()
    assert result.exit_code == 2
    assert "is damaged" in result.stderr


def test_the_older_of_two_runs_stops(run, uri, monkeypatch):
    class Replaced(InProcessJobs):
        """After some batches another driver takes over."""

        batches = 0

        def run(self, header, timeout_seconds):
            self.batches += 1
            if self.batches == 3:
                CommitLog(Store.open(uri), "letters", "the other one").claim()
            return super().run(header, timeout_seconds)

    monkeypatch.setattr(run_module, "make_jobs", lambda *_, **__: Replaced())
    result = run()
    assert result.exit_code == 1
    assert "letters: failed after" in result.stdout
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: driver '")
    assert f"in checkpoint {uri}: driver 'the other one' (epoch 2) has taken over." in error
