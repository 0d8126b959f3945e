"""`fulmen state set`, `delete`, `log` and `undo`: what people change in a checkpoint."""

import json
import os
import re
import socket
import subprocess
from datetime import date
from decimal import Decimal

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import CommitLog, Store, read_newest
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import GONE, StateWriter
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.state.committed_state import read_state
from fulmen.errors import CheckpointError
from fulmen.testing import ListSpout, run
from support.runs.engine_runs import A_PERSON

WHY = ("--because", "a test", "--author", "ann")
WORDS = [f"word {n}" for n in range(60)]
ONCE = dict.fromkeys(WORDS, 1)


class Counts(BasicBolt):
    def __init__(self):
        self.seen = 0

    def execute(self, tup, collector):
        self.seen += 1
        self.state[tup[0]] = self.state.get(tup[0], 0) + 1


def counted(uri, words):
    """Count words in a checkpoint, in three tasks."""
    builder = TopologyBuilder("counts")
    builder.set_spout("words", ListSpout([[word] for word in words], fields=["word"]))
    builder.set_bolt("count", Counts, 3).fields_grouping("words", ["word"])
    return run(builder, checkpoint=uri).state("count")


@pytest.fixture
def kept(tmp_path):
    uri = (tmp_path / "kept").as_uri()
    counted(uri, WORDS)
    return uri


def go_on(kept, words, tasks=3):
    """Let the topology go on: a spout emits more words; of a list, those that it has not yet."""
    builder = TopologyBuilder("counts")
    builder.set_spout("more", ListSpout([[word] for word in words], fields=["word"]))
    builder.set_bolt("count", Counts, tasks).fields_grouping("more", ["word"])
    return run(builder, checkpoint=kept).state("count")


def get(fulmen, kept, key):
    return fulmen("state", "get", kept, "count", "--key", key).stdout


def test_a_count_that_was_set_is_what_the_next_batch_counts_on_from(fulmen, kept):
    result = fulmen("state", "set", kept, "count", "word 7", "40", *WHY)
    assert (result.exit_code, result.stdout) == (0, "word 7  was 1, is 40\n"), result.output
    assert "To take it back: fulmen state undo" in result.stderr
    assert go_on(kept, ["word 7", "word 8"]) == ONCE | {
        "word 7": 41,
        "word 8": 2,
    }


def test_new_keys_go_to_the_task_that_their_tuples_go_to(fulmen, kept):
    new = [f"new {n}" for n in range(12)]
    for word in new:
        result = fulmen("state", "set", kept, "count", word, "100", "--new", *WHY)
        assert result.exit_code == 0, result.output
    before = read_state(Store.open(kept), "count").tasks
    assert all(any(word in items for word in new) for items in before.values())
    after = go_on(kept, new)
    assert {word: after[word] for word in new} == dict.fromkeys(new, 101)


def test_a_key_that_is_deleted_is_gone_and_an_undo_brings_it_back(fulmen, kept):
    result = fulmen("state", "delete", kept, "count", "--like", "word 1*", *WHY)
    assert result.exit_code == 0, result.output
    assert "11 taken out of" in result.stderr
    assert "has no key" in fulmen("state", "get", kept, "count", "--key", "word 1").stderr
    [line] = fulmen("state", "log", kept).stdout.splitlines()
    at = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    match = re.fullmatch(
        rf"(\d+)  {at}  ann  delete count, state (word 1\d*, ){{5}}… \(11\): a test", line
    )
    assert match, line
    assert fulmen("state", "undo", kept, match[1], *WHY).exit_code == 0
    assert go_on(kept, ["word 1"]) == ONCE | {"word 1": 2}
    last, _ = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)
    assert (last["action"], last["count"]) == (f"undo {match[1]}", 11)
    again = ("state", "undo", kept, str(last["number"]), *WHY)
    assert "has changed 'word 1' again" in fulmen(*again).stderr
    assert fulmen(*again, "--anyway").exit_code == 0
    assert get(fulmen, kept, "word 1") == ""


def test_an_undo_is_refused_if_the_key_has_changed_since(fulmen, kept):
    fulmen("state", "set", kept, "count", "word 7", "40", *WHY)
    go_on(kept, ["word 7"])
    [entry] = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)
    refused = fulmen("state", "undo", kept, str(entry["number"]), *WHY)
    assert (refused.exit_code, "has changed 'word 7' again" in refused.stderr) == (1, True)
    assert get(fulmen, kept, "word 7") == "word 7  41\n"
    assert fulmen("state", "undo", kept, str(entry["number"]), "--anyway", *WHY).exit_code == 0
    assert get(fulmen, kept, "word 7") == "word 7  1\n"


def renamed(kept, name, **spec):
    """Let the topology go on with its bolt under another name."""
    builder = TopologyBuilder("counts", **spec)
    builder.set_spout("words", ListSpout([[word] for word in WORDS], fields=["word"]))
    builder.set_bolt(name, Counts, 3).fields_grouping("words", ["word"])
    return run(builder, checkpoint=kept).state(name)


def test_a_change_is_undone_after_its_component_was_renamed(fulmen, kept):
    fulmen("state", "set", kept, "count", "word 7", "40", *WHY)
    assert renamed(kept, "counts", renames={"count": "counts"}) == {**ONCE, "word 7": 40}
    [entry] = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)
    assert entry["component"] == "counts"
    assert fulmen("state", "undo", kept, str(entry["number"]), *WHY).exit_code == 0
    assert renamed(kept, "counts", renames={"count": "counts"}) == ONCE


def test_a_change_of_a_component_that_is_gone_can_not_be_undone(fulmen, kept):
    fulmen("state", "set", kept, "count", "word 7", "40", *WHY)
    fulmen("state", "forget", kept, "count", *WHY)
    number = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)[-1]["number"]
    refused = fulmen("state", "undo", kept, str(number), *WHY)
    assert refused.exit_code == 1
    assert "the checkpoint has nothing of it any more, so it can't be undone" in refused.stderr


def test_a_field_of_one_task_is_set_deleted_and_brought_back(fulmen, kept):
    refused = fulmen("state", "set", kept, "count", "seen", "5", "--kind", "fields", *WHY)
    assert (refused.exit_code, "3 tasks of 'count' have" in refused.stderr) == (2, True)
    arguments = ("--kind", "fields", "--task", "1", *WHY)
    result = fulmen("state", "set", kept, "count", "seen", "5", *arguments)
    assert result.exit_code == 0, result.output
    shown = ("state", "get", kept, "count", "--kind", "fields", "--key", "seen")
    assert fulmen(*shown).stdout.splitlines()[1] == "task 1  seen  5"
    [entry] = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)
    assert fulmen("state", "undo", kept, str(entry["number"]), *WHY).exit_code == 0
    assert "task 1  seen  5" not in fulmen(*shown).stdout
    wrong = fulmen("state", "set", kept, "count", "sene", "5", *arguments)
    assert "has no field 'sene'. Did you mean 'seen'?" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["word 7", "1.5"], "word 7 is 1 of type int, and 1.5 is of type float"),
        (["word 7", "many"], "VALUE: 'many' is neither JSON nor a literal of Python."),
        (["word 7", '{"$tuble": [1]}'], "'$tuble' is not known. There are: $bytes, "),
        (["word 7", '{"$shown": "<X>"}'], "<X> is an object of a class"),
        (["word 7"], "give VALUE, or --from-file"),
        (["word x", "1"], "no key 'word x' in its state. To add it, say --new."),
        (["word 7", "1", "--new"], "has the key 'word 7': leave --new away."),
        (["7", "1", "--new"], "7 is a key of type int, and those that 'count' has are of"),
        (["word x", "1", "--new", "--task", "7"], "has 3 tasks, counted from 0: there is no 7"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_changed(fulmen, kept, arguments, message):
    before = read_newest(Store.open(kept)).number
    result = fulmen("state", "set", kept, "count", *arguments, *WHY)
    assert result.exit_code in (1, 2)
    assert message in result.stderr, result.stderr
    assert read_newest(Store.open(kept)).number == before


def test_a_key_is_refused_in_a_task_that_its_tuples_do_not_go_to(fulmen, kept):
    store = Store.open(kept)
    owner = Owners(store, read_newest(store), "count", "state").task_of("word x")
    other = str((owner + 1) % 3)
    result = fulmen("state", "set", kept, "count", "word x", "1", "--new", "--task", other, *WHY)
    assert f"belongs to task {owner} of 'count'" in result.stderr


def test_by_keys_that_are_in_tasks_by_chance_no_owner_is_known(tmp_path, fulmen):
    uri = (tmp_path / "kept").as_uri()
    builder = TopologyBuilder("counts")
    builder.set_spout("words", ListSpout([[word] for word in WORDS], fields=["word"]))
    builder.set_bolt("count", Counts, 3).shuffle_grouping("words")
    run(builder, checkpoint=uri)
    result = fulmen("state", "set", uri, "count", "x", "1", "--new", *WHY)
    assert "its keys don't show which of them 'x' belongs to" in result.stderr
    result = fulmen("state", "set", uri, "count", "x", "1", "--new", "--task", "2", *WHY)
    assert result.exit_code == 0, result.output
    assert read_state(Store.open(uri), "count").tasks[2]["x"] == 1


def test_a_topology_that_runs_on_this_machine_is_not_changed(fulmen, kept):
    with subprocess.Popen(["sleep", "60"]) as process:
        who = f"{socket.gethostname()}, process {process.pid}, since 2026-01-31 12:00:00"
        CommitLog(Store.open(kept), "counts", who).claim()
        refused = fulmen("state", "set", kept, "count", "word 7", "40", *WHY)
        assert f"runs on this machine (process {process.pid})" in refused.stderr
        ended = fulmen("state", "set", kept, "count", "word 7", "40", "--end-driver", *WHY)
        assert ended.exit_code == 0
        process.kill()
    CommitLog(Store.open(kept), "counts", who).claim()  # by a driver whose process has ended
    assert fulmen("state", "set", kept, "count", "word 7", "1", *WHY).exit_code == 0
    assert os.getpid() != process.pid


def test_of_two_people_who_change_a_checkpoint_at_once_one_is_told(kept):
    store = Store.open(kept)
    edits = [Edit(store, A_PERSON), Edit(store, A_PERSON)]
    for edit in edits:
        StateWriter(edit, "count", "state").write(0, "x", 1)
    writers = [StateWriter(edit, "count", "state") for edit in edits]
    writers[0].write(0, "mine", 1)
    writers[0].commit("set")
    writers[1].write(0, "yours", 1)
    with pytest.raises(CheckpointError, match=r"has committed since .* Nothing was changed"):
        writers[1].commit("set")
    state = read_state(store, "count").tasks[0]
    assert ("mine" in state, "yours" in state) == (True, False)


def test_a_change_of_many_large_values_is_saved_in_pieces_and_undone(kept):
    store, large = Store.open(kept), "x" * 400_000
    edit = Edit(store, A_PERSON)
    writer = StateWriter(edit, "count", "state")
    for n in range(60):
        writer.write(n % 3, f"large {n}", large + str(n))
    change = writer.commit("import")
    tasks = read_state(store, "count").tasks
    assert all(tasks[n % 3][f"large {n}"] == large + str(n) for n in range(60))
    assert change.count == 60
    edit = Edit(store, A_PERSON)
    writer = StateWriter(edit, "count", "state")
    for n in range(60):
        writer.write(n % 3, f"large {n}", GONE, large + str(n))
    writer.commit("delete")
    assert sum(map(len, read_state(store, "count").tasks.values())) == 60


def test_older_values_of_the_last_changes_alone_are_kept(fulmen, kept):
    for n in range(23):
        fulmen("state", "set", kept, "count", "word 7", str(n + 100), *WHY)
    manifest = read_newest(Store.open(kept))
    older = [j for journals in manifest.tasks.values() for j in journals if j.startswith("older")]
    assert len(older) == 20
    first = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)[-1]["number"]
    assert (
        "is not kept, so it can't be undone"
        in fulmen("state", "undo", kept, str(first), *WHY).stderr
    )


@pytest.mark.parametrize("tasks", [1, 5])
def test_a_change_is_undone_after_the_number_of_tasks_has_changed(fulmen, kept, tasks):
    assert fulmen("state", "delete", kept, "count", "--like", "word 1*", *WHY).exit_code == 0
    [entry] = json.loads(fulmen("state", "log", kept, "-o", "json").stdout)
    go_on(kept, ["word 2"], tasks)
    result = fulmen("state", "undo", kept, str(entry["number"]), *WHY)
    assert result.exit_code == 0, result.output
    assert go_on(kept, ["word 2", "word 1", "word 19"], tasks) == ONCE | dict.fromkeys(
        ["word 1", "word 2", "word 19"], 2
    )


ODD = [
    None, "None", 1, "1", "", date(2026, 1, 31), "2026-01-31", Decimal("2.50"), ("a", None), -3,
    "a\nb", " ",
]  # fmt: skip


def test_each_key_is_found_by_what_shows_it(fulmen, tmp_path):
    uri = (tmp_path / "odd").as_uri()
    counted(uri, ODD)
    lines = [line for line in fulmen("state", "get", uri, "count").stdout.splitlines() if line]
    names = [line.rpartition("  ")[0].rstrip() for line in lines]
    assert sorted(names) == sorted(
        ["None", "'None'", "1", "'1'", "''", "datetime.date(2026, 1, 31)", "2026-01-31",
         "Decimal('2.50')", "('a', None)", "-3", "'a\\nb'", "' '"]
    )  # fmt: skip
    for name in names:
        told = fulmen("state", "set", uri, "count", name, "7", *WHY)
        assert told.stdout == f"{name}  was 1, is 7\n"
        assert "7" in fulmen("state", "get", uri, "count", "--key", name).stdout
    assert set(read_state(Store.open(uri), "count").tasks[0].values()) == {7}
    told = fulmen("state", "log", uri).stdout.splitlines()
    assert [line.rpartition("state ")[2] for line in told[::-1]] == [
        f"{name} (1): a test" for name in names
    ]
    assert fulmen("state", "set", uri, "count", "-3", "-4", *WHY).stdout == "-3  was 7, is -4\n"
