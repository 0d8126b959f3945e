"""`fulmen run` without Spark: how it ends, and what it says."""

import json
import os
import re

import pytest

from fulmen import TopologyBuilder
from fulmen.cli.commands import run as run_module
from fulmen.engine.worker.in_process import Crash, InProcessJobs
from fulmen.testing import ABORT, CollectBolt, ListSpout
from support.cli.cli_runs import write_letters

TEMPORARY = "checkpoint: a temporary folder, removed at the end; to keep it, --checkpoint\n"
STARTED = f"{TEMPORARY}letters: starting\n"
TABLE = """\
component  tasks  emitted  executed  acked  failed  errors
letters        2    2,000         -  2,000       0       0
count          2        -     2,000  2,000       0       0
__acker        2    2,000     4,000  4,000       0       0
"""


@pytest.fixture
def letters(fulmen, tmp_path):
    """Runs the topology that counts letters until it is drained: letters(config, *options)."""

    def run(config=None, *options, **spec):
        file = write_letters(tmp_path, config, **spec)
        return fulmen("run", file, "--in-process", "--until-drained", *options)

    return run


def without_times(text):
    """A summary with its times, rates and numbers of batches left out."""
    text = re.sub(r"after [\d.,]+ s, [\d,]+ batches", "after T s, N batches", text)
    text = re.sub(r"p50 .*, p99 .*", "p50 T, p99 T", text)
    return re.sub(r"[\d.,]+ (tuples/s|trees acked/s)", r"R \1", text)


def summary(end="drained", trees="2,000 acked, 0 failed, 0 timed out, 0 pending", table=TABLE):
    return (
        f"letters: {end} after T s, N batches\n"
        f"trees        {trees}\n"
        "latency      p50 T, p99 T\n"
        "throughput   R tuples/s, R trees acked/s\n"
        f"\n{table}"
    )


def ended(result):
    return result.exit_code, without_times(result.stdout), result.stderr


def test_drained(letters):
    assert ended(letters()) == (0, summary(), STARTED)


def test_the_workers_are_an_option(letters):
    result = letters(None, "--workers", "1")
    assert result.exit_code == 0
    assert "__acker        1" in result.stdout


@pytest.mark.parametrize(
    ("options", "spec", "millis"),
    [
        (["--until-drained"], {}, 1000),
        (["--until-drained"], {"batchTargetMillis": 250}, 250),
        (["--for", "0"], {}, 250),
    ],
)
def test_batches_are_large_where_a_run_is_over_when_all_is_done_unless_the_topology_says_how_large(
    fulmen, tmp_path, monkeypatch, options, spec, millis
):
    class Noting(InProcessJobs):
        def start(self, placed):
            started.append(placed.topology.spec.batch_target_millis)
            return super().start(placed)

    started = []
    monkeypatch.setattr(run_module, "make_jobs", lambda *_, **__: Noting())
    result = fulmen("run", write_letters(tmp_path, **spec), "--in-process", *options)
    assert (result.exit_code, started) == (0, [millis])


def test_for_some_time(fulmen, tmp_path):
    file = write_letters(tmp_path, {"count": 10**9})
    result = fulmen("run", file, "--in-process", "--for", "0.05")
    assert result.exit_code == 0
    assert "letters: drained after" in result.stdout
    assert " 0 pending" in result.stdout


class Interrupts(CollectBolt):
    """Raises once what ends a worker's process."""

    def execute(self, tup, collector):
        if tup[0] == 2 and not hasattr(Interrupts, "has_raised"):
            Interrupts.has_raised = True
            raise KeyboardInterrupt
        super().execute(tup, collector)


class PinnedInterrupts(ListSpout):
    pinned = True

    def ack(self, msg_id):
        raise KeyboardInterrupt


LOST = TopologyBuilder("lost")
LOST.set_spout("source", ListSpout([[1], ABORT, [2]]))
LOST.set_bolt("bolt", Interrupts).shuffle_grouping("source")
PINNED = TopologyBuilder("pinned")
PINNED.set_spout("source", PinnedInterrupts([[1]]))
PINNED.set_bolt("bolt", CollectBolt).shuffle_grouping("source")
topologies = {"lost": LOST, "pinned": PINNED}


@pytest.fixture
def of_python(fulmen, tmp_path):
    def run(name):
        file = tmp_path / f"{name}.py"
        code = f"from {__name__} import topologies\ntopology = topologies[{name!r}].build()"
        file.write_text(code)
        return fulmen("run", str(file), "--in-process", "--until-drained")

    return run


def test_what_ends_a_worker_in_this_process_is_the_loss_of_a_worker(of_python):
    result = of_python("lost")
    assert result.exit_code == 0, result.stderr
    assert "attempts     2 failed and were run again" in result.stdout
    assert "trees        2 acked" in result.stdout, result.stdout + result.stderr
    assert "KeyboardInterrupt" in result.stderr
    assert "ABORT at item 1" in result.stderr


def test_what_ends_the_driver_in_this_process_has_a_summary(of_python):
    result = of_python("pinned")
    assert result.exit_code == 1
    assert result.stdout.startswith("pinned: failed after")
    assert "Error: a component has ended the driver: KeyboardInterrupt." in result.stderr


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_a_signal_drains(fulmen, tmp_path, signal):
    file = write_letters(tmp_path, {"count": 10**9, "signals": 1, "signal": signal})
    result = fulmen("run", file, "--in-process")
    assert result.exit_code == 0
    assert "letters: drained after" in result.stdout
    assert " 0 pending" in result.stdout


def test_a_second_signal_stops_at_once(fulmen, tmp_path):
    file = write_letters(tmp_path, {"count": 10**9, "signals": 2})
    result = fulmen("run", file, "--in-process", "--checkpoint", "kept")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        1,
        "Error: stopped at once, by a second signal. What is committed stays: another run with the "
        "same checkpoint continues from there.",
    )
    assert "letters: stopped at once after" in result.stdout


def test_an_inactive_topology_is_told(letters):
    result = letters(None, "--for", "0", state="Inactive")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        f"{TEMPORARY}spec.state is Inactive: spouts emit nothing\nletters: starting\n"
    )


# ---- what the author's code does -----------------------------------------------------------------


def test_an_error_in_a_bolt_is_one_line_and_its_traceback_in_the_log(letters, tmp_path):
    result = letters({"raise_at": 300})
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    lines = result.stderr.removeprefix(STARTED).splitlines()
    assert result.exit_code == 0
    assert lines == [
        "error in 'count', task 3: execute: ValueError: not this one",
    ]  # that of the other task is the same
    assert re.search(r"^count +2 .* 2$", result.stdout, re.MULTILINE)
    assert "2,000 acked, 2 failed, 0 timed out, 0 pending, 2 replayed\n" in result.stdout
    assert result.stdout.endswith(f"\nlog: {log}\n")
    assert 'letters.py", line' in log.read_text()
    assert 'raise ValueError("not this one")' in log.read_text()


def test_an_error_whose_message_is_no_text_in_utf_8(fulmen, tmp_path):
    file = write_letters(tmp_path, {"raise_at": 300})
    code = tmp_path / "letters.py"
    code.write_text(code.read_text().replace('"not this one"', '"bad \\udcff"'))
    options = ["--in-process", "--until-drained", "--report", "r.json"]
    result = fulmen("run", file, *options)
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    message = r"execute: ValueError: bad \udcff"
    assert result.exit_code == 0
    assert f"error in 'count', task 3: {message}\n" in result.stderr
    assert r"ValueError: bad \udcff" in log.read_text(encoding="utf-8")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["components"]["count"]["errors"][0]["message"] == message


def test_an_error_that_stops_the_topology_is_shown_with_its_traceback(letters, tmp_path):
    result = letters({"raise_at": 600}, onError="crash")
    assert result.exit_code == 1
    message = result.stderr.removeprefix(STARTED)
    assert re.fullmatch(
        "Error: bolt 'count', task [34]: execute: ValueError: not this one\n"
        "Traceback \\(most recent call last\\):\n"
        f'  File "{tmp_path}/letters.py", line \\d+, in execute\n'
        '    raise ValueError\\("not this one"\\)\n'
        "ValueError: not this one\n",
        message,
    )
    assert "letters: failed after" in result.stdout


def test_an_error_in_open(letters, tmp_path):
    result = letters({"open_fails": "no such table"})
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.fullmatch(
        f"{STARTED}"
        "Error: spout 'letters', task \\d: open: LookupError: no such table\n"
        "Traceback \\(most recent call last\\):\n"
        f'  File "{tmp_path}/letters.py", line \\d+, in open\n'
        '    raise LookupError\\(conf\\["open_fails"\\]\\)\n'
        "LookupError: no such table\n",
        result.stderr,
    )


def test_a_component_that_calls_sys_exit_fails_its_tuple(letters):
    result = letters({"exit_at": 10})
    assert result.exit_code == 0
    assert ": execute: SystemExit: 3\n" in result.stderr


def test_the_log_goes_elsewhere_if_there_is_no_place_for_it(letters, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "state").write_text("not a folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert letters({"raise_at": 300}).exit_code == 0
    [log] = tmp_path.glob("tmp/fulmen-runs-*/*/run.log")
    assert "not this one" in log.read_text()


# ---- attempts ------------------------------------------------------------------------------------


def test_a_failed_attempt_is_one_line(letters, monkeypatch):
    moments = iter([*["no"] * 20, "now"])

    def fault(stage, partition, moment):
        if next(moments, "no") == "now":
            raise Crash("killed")

    monkeypatch.setattr(run_module, "make_jobs", lambda *_, **__: InProcessJobs(fault))
    result = letters()
    [line] = result.stderr.removeprefix(STARTED).splitlines()
    assert re.fullmatch(r"batch \d+ is run again: worker \d was lost in stage \d: killed", line)
    assert re.search(
        r"^attempts     1 failed and were run again, the last one because worker \d was lost",
        result.stdout,
        re.MULTILINE,
    )
    assert "2,000 acked, 0 failed, 0 timed out, 0 pending\n" in result.stdout


def test_a_mistake_of_ours_is_in_the_log(letters, monkeypatch, tmp_path):
    class Broken(InProcessJobs):
        def run(self, header, timeout_seconds):
            return [][0]

    monkeypatch.setattr(run_module, "make_jobs", lambda *_, **__: Broken())
    result = letters()
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"{STARTED}Error: a mistake in Fulmen: IndexError: list index out of range.\n"
        f"More is in '{log}'.\n"
    )
    assert "return [][0]" in log.read_text()


# ---- the report ----------------------------------------------------------------------------------

STATISTICS = {
    *("emitted", "transferred", "executed", "acked", "failed"),
    *("tasks", "errors", "metrics", "failures", "unread"),
}


def test_the_report(letters, tmp_path):
    (tmp_path / "r.json").write_text("an old one")
    assert letters(None, "--report", "r.json").exit_code == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report.keys() == {
        "topology",
        "batches",
        "seconds",
        "trees",
        "latency_ms",
        "components",
        "failed_attempts",
        "restored_tasks",
        "kept_state",
    }
    assert report["trees"] == {
        "acked": 2000,
        "failed": 0,
        "timed_out": 0,
        "pending": 0,
        "replayed": 0,
        "dead_lettered": 0,
        "dropped": 0,
    }
    assert report["components"].keys() == {"letters", "count", "__acker"}
    assert all(component.keys() == STATISTICS for component in report["components"].values())
    assert sorted(path.name for path in tmp_path.iterdir() if "json" in path.name) == ["r.json"]


def test_a_report_into_a_pipe(letters, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert letters(None, "--report", "pipe").exit_code == 0
        assert json.loads(os.read(reader, 1 << 16))["trees"]["acked"] == 2000
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_report_to_standard_output_wherever_that_leads(letters, tmp_path):
    result = letters(None, "--report", "/dev/stdout")
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    report = result.stdout[result.stdout.index("{") : result.stdout.rindex("}") + 1]
    assert json.loads(report)["trees"]["acked"] == 2000


def test_a_report_through_a_link(letters, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "r.json"
    target.write_text("an old one")
    (tmp_path / "link.json").symlink_to(target)
    assert letters(None, "--report", "link.json").exit_code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads(target.read_text())["trees"]["acked"] == 2000
    assert list(target.parent.iterdir()) == [target]


def test_the_report_of_a_failed_run(letters, tmp_path):
    assert letters({"raise_at": 700}, "--report", "r.json", onError="crash").exit_code == 1
    assert json.loads((tmp_path / "r.json").read_text())["trees"]["acked"] > 0


def test_the_report_of_a_run_that_never_began(letters, tmp_path):
    assert letters({"open_fails": "x"}, "--report", "r.json").exit_code == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["topology"], report["batches"]) == ("letters", 0)
    assert report["components"]["count"] == {
        **dict.fromkeys(["emitted", "transferred", "executed", "acked", "failed"], 0),
        "tasks": 2,
        "metrics": {},
        "errors": [],
        "failures": [],
        "unread": {},
    }


def test_a_report_in_a_folder_that_is_not_there(letters, tmp_path):
    result = letters(None, "--report", "no/r.json")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        f"Error: --report: the folder '{tmp_path / 'no'}' does not exist.\n",
    )
