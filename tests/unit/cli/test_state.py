"""`fulmen state get` and `delete`: what a component keeps, out of a checkpoint."""

import json

import pytest

from fulmen import TopologyBuilder
from fulmen.cli.display.kept_values import brief
from fulmen.testing import ListSpout, run
from fulmen.windows import Aggregate
from support.cli.cli_runs import write_letters

WHY = ("--because", "a test")


def keep(file, value, more=""):
    """Have the bolt keep another value of each letter."""
    text = file.read_text().replace("self.state.get(letter, 0) + 1", value)
    file.write_text(text + more)


@pytest.fixture
def kept(fulmen, tmp_path):
    """A checkpoint in the folder `kept`, in which there are more letters of some kinds."""
    file = write_letters(tmp_path, {"count": 13})
    options = ["--in-process", "--until-drained", "--checkpoint", "kept"]
    assert fulmen("run", file, *options).exit_code == 0
    return (tmp_path / "kept").as_uri()


def test_all_keys_of_a_component_are_shown(fulmen, kept):
    result = fulmen("state", "get", "kept", "count")
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(result.stdout.splitlines()) == ["a  6", "b  6", "c  6", "d  4", "e  4"]


def test_the_largest_values_are_shown_with_top(fulmen, kept):
    assert fulmen("state", "get", kept, "count", "--top", "4").stdout == "a  6\nb  6\nc  6\nd  4\n"


def test_the_fields_of_a_spout_are_shown_task_by_task(fulmen, kept):
    result = fulmen("state", "get", "kept", "letters", "--kind", "fields", "--key", "count")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "task 0  count  13\ntask 1  count  13\n"
    entries = json.loads(
        fulmen("state", "get", "kept", "letters", "--kind", "fields", "-o", "json").stdout
    )
    assert {"key": "count", "value": 13, "task": 0} in entries


def test_a_field_that_is_not_there(fulmen, kept):
    result = fulmen("state", "get", "kept", "letters", "--kind", "fields", "--key", "cuont")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: component 'letters' has no field 'cuont'.\n",
    )


def test_one_key_is_shown_by_its_name(fulmen, kept):
    assert fulmen("state", "get", "kept", "count", "--key", "d").stdout == "d  4\n"


def test_keys_and_values_are_shown_as_json(fulmen, kept):
    entries = json.loads(fulmen("state", "get", "kept", "count", "-o", "json").stdout)
    assert {entry["key"]: entry["value"] for entry in entries} == {
        **dict.fromkeys("abc", 6),
        **dict.fromkeys("de", 4),
    }
    assert {entry["task"] for entry in entries} <= {0, 1}


def test_values_that_json_does_not_know(fulmen, tmp_path):
    file = write_letters(tmp_path, {"count": 13})
    keep(tmp_path / "letters.py", "{(letter, 1): [(1, None), {2}], 3: 4}")
    options = ["--in-process", "--until-drained", "--checkpoint", "kept"]
    assert fulmen("run", file, *options).exit_code == 0
    result = fulmen("state", "get", "kept", "count", "--key", "a", "-o", "json")
    assert result.exit_code == 0, result.output
    [entry] = json.loads(result.stdout)
    assert entry["value"] == {"('a', 1)": [[1, None], "{2}"], "3": 4}


def test_classes_are_in_the_folder_that_the_topology_names(fulmen, tmp_path):
    uri = (tmp_path / "kept").as_uri()
    file = write_letters(tmp_path, {"count": 13}, code={"folder": "src"}, checkpoint={"uri": uri})
    (tmp_path / "src").mkdir()
    code = (tmp_path / "letters.py").rename(tmp_path / "src" / "letters.py")
    keep(code, "Kind(letter)", "class Kind(str): pass\n")
    assert fulmen("run", file, "--in-process", "--until-drained").exit_code == 0
    result = fulmen("state", "get", file, "count", "--key", "a")
    assert (result.exit_code, result.stdout) == (0, "a  a\n"), result.output


def test_by_a_topology_that_names_its_checkpoint(fulmen, kept, tmp_path):
    file = write_letters(tmp_path, checkpoint={"uri": kept})
    assert fulmen("state", "get", file, "count", "--key", "a").stdout == "a  6\n"


def test_a_component_without_keyed_state(fulmen, kept):
    assert (fulmen("state", "get", "kept", "letters").stdout) == ""
    assert json.loads(fulmen("state", "get", "kept", "letters", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("component", "kind", "which"),
    [("tumbling", "windows", 1), ("visits", "timers", -1)],
)
def test_windows_and_timers_of_a_key_are_taken_out_and_those_of_others_stay(
    fulmen, timed, component, kind, which
):
    def listed():
        return fulmen("state", "get", timed, component, "--kind", kind).stdout.splitlines()

    before = listed()
    key = before[0].split("  ")[which]
    taken = [line for line in before if f"  {key}" in line]
    remove = ("state", "delete", timed, component, "--kind", kind, "--key", key, *WHY)
    result = fulmen(*remove)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, len(taken)), result.output
    assert listed() == [line for line in before if line not in taken] != []
    again = fulmen(*remove)
    assert (again.exit_code, "of the key" in again.stderr) == (1, True)


def test_a_key_of_the_state_is_taken_out_and_the_topology_goes_on_without_it(fulmen, tmp_path):
    file = write_letters(tmp_path, {"count": 13})
    options = ["--in-process", "--until-drained", "--checkpoint", "kept"]
    assert fulmen("run", file, *options).exit_code == 0
    before = fulmen("state", "get", "kept", "count").stdout.splitlines()
    key = before[0].split()[0]
    refused = fulmen("state", "delete", "kept", "count", *WHY)
    assert (refused.exit_code, "give --key, or --like" in refused.stderr) == (2, True)
    result = fulmen("state", "delete", "kept", "count", "--key", key, *WHY)
    assert (result.exit_code, result.stderr[:12]) == (0, "1 taken out "), result.output
    assert fulmen("run", file, *options).exit_code == 0
    assert fulmen("state", "get", "kept", "count").stdout.splitlines() == before[1:]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["kept", "count", "--key", "z"], 1, "component 'count' has no key 'z' in its state."),
        (
            ["kept", "cuont"],
            2,
            "checkpoint {kept}: there is no component 'cuont'. Did you mean 'count'?",
        ),
        (
            ["kept", "xyz"],
            2,
            "checkpoint {kept}: there is no component 'xyz'. There are: count, letters.",
        ),
        (["empty", "count"], 2, "checkpoint {empty}: nothing was ever committed there."),
        (
            ["letters.yaml", "count"],
            2,
            "'letters.yaml' names no checkpoint in spec.checkpoint.uri. Give the one that you "
            "gave to `fulmen run --checkpoint`.",
        ),
    ],
)
def test_a_component_a_key_or_a_checkpoint_that_is_not_there_is_told(
    fulmen, kept, tmp_path, arguments, code, message
):
    result = fulmen("state", "get", *arguments)
    message = message.format(kept=kept, empty=(tmp_path / "empty").as_uri())
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"Error: {message}\n")
    assert not (tmp_path / "empty").exists()


def test_what_can_not_be_read_is_shown_and_taken_out(fulmen, tmp_path):
    file = write_letters(tmp_path, {"count": 13})
    code = tmp_path / "letters.py"
    keep(code, "Odd() if letter == 'a' else 1", "\n\nclass Odd:\n    pass\n")
    options = ["--in-process", "--until-drained", "--checkpoint", "kept"]
    assert fulmen("run", file, *options).exit_code == 0
    whole = fulmen(
        "state", "get", "kept", "count", "--kind", "unreadable", "--code-folder", tmp_path
    )
    assert (whole.exit_code, whole.stdout) == (0, "")
    assert whole.stderr == "everything that 'count' keeps is readable.\n"
    code.write_text(code.read_text().replace("class Odd", "class Other"))
    shown = fulmen(
        "state", "get", "kept", "count", "--kind", "unreadable", "--code-folder", tmp_path
    )
    assert "  state  'a'  AttributeError: Can't get attribute 'Odd'" in shown.stdout
    refused = fulmen("state", "delete", "kept", "count", "--kind", "unreadable", *WHY)
    assert (refused.exit_code, "--code-folder" in refused.stderr) == (2, True)
    arguments = ["kept", "count", "--kind", "unreadable", "--code-folder", tmp_path, *WHY]
    assert fulmen("state", "delete", *arguments).stderr.startswith("1 taken out of file://")
    left = fulmen("state", "get", "kept", "count", "--code-folder", tmp_path)
    assert sorted(left.stdout.splitlines()) == ["b  1", "c  1", "d  1", "e  1"]


def test_no_store_is_accepted_for_a_component_that_writes_to_none(fulmen, kept):
    refused = fulmen("state", "accept-store", kept, "count", *WHY)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "'count' is neither a sink that has written" in refused.stderr


NOON = 1_714_564_800_000


@pytest.fixture
def timed(tmp_path):
    """A checkpoint with open windows of an Aggregate, sessions and timers."""
    builder, minute = TopologyBuilder("timed"), 60_000
    clicks = [["ann", NOON], ["bob", NOON + minute], ["ann", NOON + 11 * minute]]
    spout = builder.set_spout("clicks", ListSpout(clicks, fields=["user", "at"]))
    spout.set_event_time("at", unit="ms", lag="1h")
    for name, window in (
        ("tumbling", {"type": "tumbling", "size": "10m"}),
        ("visits", {"type": "session", "gap": "30m"}),
    ):
        bolt = builder.set_bolt(name, Aggregate).fields_grouping("clicks", ["user"])
        bolt.set_config({"key": ["user"], "window": window, "aggregates": {"clicks": "count"}})
    uri = (tmp_path / "timed").as_uri()
    run(builder, batches=5, checkpoint=uri)
    return uri


def test_windows_are_listed_with_their_keys(fulmen, timed):
    result = fulmen("state", "get", timed, "tumbling", "--kind", "windows")
    assert result.exit_code == 0, result.output
    first, second, third = result.stdout.splitlines()
    assert [line[:23] for line in (first, second, third)] == [
        "2024-05-01 12:00:00 UTC",
        "2024-05-01 12:00:00 UTC",
        "2024-05-01 12:10:00 UTC",
    ]
    names = ("ann", "bob", "ann")
    assert all(f"  {n}  " in line for n, line in zip(names, (first, second, third), strict=True))
    [bob] = json.loads(
        fulmen(
            "state", "get", timed, "tumbling", "--kind", "windows", "--key", "bob", "-o", "json"
        ).stdout
    )
    assert (bob["key"], bob["window_start"], bob["task"]) == (["bob"], NOON, 0)


def test_of_a_large_collection_a_line_says_how_many_it_has():
    many = {f"page-{n}" for n in range(242)}
    assert brief((7, 2.5, many, ["a"])) == "(7, 2.5, <242 values>, ['a'])"
    assert brief({"a": 1}) == "{'a': 1}"


def test_sessions_are_listed_from_their_start_to_their_end(fulmen, timed):
    result = fulmen("state", "get", timed, "visits", "--kind", "windows", "--key", "ann")
    text = "2024-05-01 12:00:00 UTC to 2024-05-01 12:41:00 UTC  ann  "
    assert result.stdout.startswith(text), result.output


def test_timers_are_listed_the_next_one_first(fulmen, timed):
    lines = fulmen("state", "get", timed, "visits", "--kind", "timers").stdout.splitlines()
    assert [line.partition(" UTC  ")[0] for line in lines] == [
        "2024-05-01 12:31:00.001",
        "2024-05-01 12:41:00.001",
    ]
    entries = json.loads(
        fulmen("state", "get", timed, "visits", "--kind", "timers", "-o", "json").stdout
    )
    assert [entry["at"] for entry in entries] == [NOON + 31 * 60_000 + 1, NOON + 41 * 60_000 + 1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["clicks", "--kind", "windows"],
            1,
            "component 'clicks' has no open windows of an Aggregate.",
        ),
        (["visits", "--kind", "timers", "--key", "x"], 1, "'visits' has no timers of the key 'x'."),
        (
            ["visits", "--kind", "timers", "--top", "1"],
            2,
            "--top and --like are for values, and not for windows",
        ),
    ],
)
def test_what_is_wrong_about_windows_and_timers_is_said(fulmen, timed, arguments, code, message):
    result = fulmen("state", "get", timed, *arguments)
    assert result.exit_code == code
    assert message in result.stderr
