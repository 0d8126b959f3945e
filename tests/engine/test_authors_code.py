"""What authors write and Storm or Python lets pass: it works, or is told, on real Spark as well."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fulmen.checkpoint import Store
from fulmen.engine.state.committed_state import read_state
from support.authors_code import AT_ONCE, CHANGED_SHAPES, COUNT, write_code
from support.spark_topologies import Committed

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

RUN = [
    str(Path(sys.executable).with_name("fulmen")),
    *("run", "authors.yaml", "--checkpoint", "kept", "--until-drained"),
]
FULL = (
    f"'orders' emits nothing: {AT_ONCE} messages are pending, as many as maxSpoutPending allows,"
    " and none has ended for "
)


def run(folder, see=lambda _: None):
    """Run the topology. Returns the exit code, and all that was said, of which `see` sees lines."""
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
    said = []
    with subprocess.Popen(
        RUN,
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            said.append(line)
            see(line)
    return process.returncode, "".join(said)


def test_each_is_dealt_with_and_a_class_that_has_changed_is_noticed(tmp_path):
    write_code(tmp_path)
    code, said = run(tmp_path, lambda line: FULL in line and (tmp_path / "said").touch())
    assert code == 0, said
    assert "; 'holds' has not acked all that it received" in said
    store, committed = Store.open(str(tmp_path / "kept")), Committed(str(tmp_path / "kept"))
    bad = set(range(7, COUNT, 20))
    (numbers,) = committed.fields("numbers").values()
    assert sorted(numbers["acked"]) == [n for n in range(COUNT) if n not in bad]
    assert numbers["failed"] == dict.fromkeys(bad, 0.5)  # a delay, and no reason
    (orders,) = committed.fields("orders").values()
    assert sorted(orders["acked"]) == [*range(2 * AT_ONCE)]
    kept = read_state(store, "keeps").tasks.values()
    assert {n: value for task in kept for n, value in task.items()} == {
        n: n for n in range(COUNT) if n not in bad
    }
    assert [f["heard"] for f in committed.fields("keeps").values()] == [
        {"end_batch", "drain", "committed"}
    ] * 2
    assert "in 'makes', task " in said
    assert ": emit on stream 'default': the value of field 'value' can't be unpickled" in said
    assert "in 'hours', task " in said
    assert ": next_tuple: SystemExit: 3\n" in said
    assert ": next_tuple: CancelledError: of a helper\n" in said
    assert "is run again" not in said  # no batch came to nothing
    (hours,) = read_state(store, "compares").tasks.values()
    assert dict(hours) == {"pinned": 9, "bolt": 9}

    write_code(tmp_path, CHANGED_SHAPES)
    code, said = run(tmp_path)
    assert code == 1
    assert (
        "the fields of class shapes.Price were 'name', 'cents' when its values were written" in said
    )
