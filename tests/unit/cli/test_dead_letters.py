"""`fulmen dead-letters`, of a topology that is stopped, and of one that runs."""

import json
import re
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from fulmen.checkpoint import Store
from fulmen.engine.state.letters.kept_letters import read_letters
from support.cli.fake_kubectl import topology
from support.parts.refusing import LIMIT, Counts, Mended, ran, running_with
from support.runs.engine_runs import state_of

REASON = "bolt 'count': execute: KeyError: 'cents', hence ValueError: not"

WHY = "--because", "a test"


@pytest.fixture
def store(tmp_path):
    store = Store.open((tmp_path / "kept").as_uri())
    ran(store)
    return store


def ids(store):
    return [str(one.id) for one in read_letters(store).letters]


def test_letters_are_listed_by_reason(fulmen, store):
    three, two = ids(store)
    result = fulmen("dead-letters", "list", "--checkpoint", "kept")
    lines = result.stdout.splitlines()
    assert (
        lines[0] == "2 dead letters of source: bolt …: execute: KeyError: …, hence ValueError:"
        " not …"
    )
    assert re.fullmatch(rf"  {three}  \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  message 3: 3", lines[1])
    assert lines[2].startswith(f"  {two}  ")
    assert (result.exit_code, result.stderr) == (0, "")


def test_options_that_leave_out_all_letters_say_so(fulmen, store):
    options = ("--checkpoint", "kept", "--component", "sorce")
    told = "no dead letter is meant. There are 2 without these options. Did you mean 'source'?\n"
    for command in (("list",), ("show",), ("replay", *WHY), ("drop", *WHY)):
        assert fulmen("dead-letters", *command, *options).stderr == told


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--reason", "not 2"], [2]),
        (["--component", "source"], [3, 2]),
        (["--component", "count"], [3, 2]),
        (["--component", "other"], []),
        (["--since", "1h"], [3, 2]),
        (["--until", "1h"], []),
        (["--until", "2999-01-01", "--since", "2020-01-01T12:00"], [3, 2]),
    ],
)
def test_some_are_chosen_by_component_reason_and_time(fulmen, store, options, found):
    result = fulmen("dead-letters", "list", "--checkpoint", "kept", "--json", *options)
    assert [letter["message_id"] for letter in json.loads(result.stdout)["letters"]] == found


def test_a_letter_is_shown_with_all_that_is_known_of_it(fulmen, store):
    three, _ = ids(store)
    result = fulmen("dead-letters", "show", three, "--checkpoint", "kept")
    lines = result.stdout.splitlines()
    assert lines[0] == f"dead letter {three}"
    for line in (
        "  began at    'source', task 0, stream 'default'",
        "  message id  3",
        f"  reason      {REASON} 3",
        "  values      0: 3",
        "  failed      1 time, given up",
    ):
        assert line in lines
    assert "  KeyError: 'cents'" in lines
    assert lines[-1] == "  ValueError: not 3"


def test_letters_of_a_stopped_topology_are_sent_again_at_its_next_start(fulmen, store):
    three, two = ids(store)
    asked = "dead-letters", "replay", three, "--checkpoint", "kept", *WHY
    result = fulmen(*asked)
    assert result.stdout == "1 dead letter will be sent again when the topology starts next.\n"
    listed = fulmen("dead-letters", "list", "--checkpoint", "kept").stdout
    assert listed.count("(to be sent again)") == 1
    shown = fulmen("dead-letters", "show", three, "--checkpoint", "kept", "--json")
    [letter] = json.loads(shown.stdout)
    assert letter["wanted_by"].endswith(": a test")
    again = fulmen(*asked)
    assert (again.exit_code, again.stderr) == (1, "Error: 1 of 1 are left as they are.\n")
    assert state_of(ran(store, Mended), "count") == {0: 1, 1: 1, 3: 1, 4: 1}
    assert ids(store) == [two]


def test_removed_letters_are_gone_and_one_has_to_say_why(fulmen, store):
    refused = fulmen("dead-letters", "drop", "--all", "--checkpoint", "kept")
    assert refused.exit_code == 2
    assert "Missing option '--because'" in refused.stderr
    result = fulmen("dead-letters", "drop", "--all", "--checkpoint", "kept", *WHY)
    assert result.stdout == "2 dead letters removed.\n"
    result = fulmen("dead-letters", "list", "--checkpoint", "kept")
    assert (result.stdout, result.stderr) == ("", "there are no dead letters.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "give one of these: the CHECKPOINT of a topology that is stopped, --url of one"),
        (["list", "--url", "http://x", "--checkpoint", "kept"], "give one of these: "),
        (["replay", "--checkpoint", "kept", *WHY], "say which are meant: by ids, --component, "),
        (
            ["replay", "7-7-7", "--checkpoint", "kept", *WHY],
            "there is no dead letter '7-7-7'. It was",
        ),
        (["replay", "1", "--all", "--checkpoint", "kept", *WHY], "give ids, or --all."),
        (["list", "--since", "soon", "--checkpoint", "kept"], "--since soon: neither a time, "),
    ],
)
def test_mistakes_are_told(fulmen, store, arguments, message):
    result = fulmen("dead-letters", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: {message}")


class Mending(Counts):
    """Refuses numbers until it is mended."""

    refused = frozenset()


@pytest.fixture
def running(store):
    """The same topology again, which runs until the test ends it: its URL."""
    Mending.refused = frozenset({2, 3})
    with running_with(store, Mending) as url:
        yield url


def test_letters_of_a_running_topology_are_sent_again_and_removed(fulmen, store, running):
    three, two = ids(store)
    result = fulmen("dead-letters", "list", "--url", running)
    assert three in result.stdout
    result = fulmen("dead-letters", "replay", two, "--url", running, *WHY)
    assert (result.stdout, result.stderr) == ("1 dead letter will be sent again.\n", "")
    letter = again(fulmen, running, two)
    assert (letter["replays"], letter["state"]) == (1, "kept")
    Mending.refused = frozenset()
    assert fulmen("dead-letters", "replay", two, "--url", running, *WHY).exit_code == 0
    while two in fulmen("dead-letters", "list", "--url", running).stdout:
        pass
    result = fulmen("dead-letters", "drop", "--all", *WHY, "--url", running)
    assert result.stdout == "1 dead letter removed.\n"
    assert ids(store) == []
    log = json.loads(fulmen("state", "log", "kept", "-o", "json").stdout)
    assert [(one["action"], one["component"], one["keys"], one["because"]) for one in log] == [
        ("drop", "source", [three], "a test"),
        *[("replay", "source", [two], "a test")] * 2,
    ]
    assert all("@" in one["author"] and one["at"].endswith(" UTC") for one in log)
    assert counted(store) == {n: 1 for n in range(LIMIT) if n != 3}


def counted(store):
    return state_of(ran(store, Mended), "count")


def again(fulmen, url, one):
    """The letter when it has failed again."""
    while True:
        [letter] = json.loads(fulmen("dead-letters", "show", one, "--url", url, "--json").stdout)
        if letter["replays"] and letter["state"] == "kept":
            return letter


def test_values_are_shown_by_a_driver_only_if_the_topology_allows_it(fulmen, store, running):
    shown = fulmen("dead-letters", "show", "--all", "--url", running)
    assert shown.exit_code == 2  # no such option
    shown = fulmen("dead-letters", "show", "--url", running).stdout
    assert "not shown: the topology has no `tap: {allowed: true}`, or masks some" in shown
    assert "message id  None" in shown


def test_on_a_cluster_they_come_through_a_port_forward(fulmen, kubectl, store, running):
    port = urlsplit(running).port
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/letters": topology(status={"driverPod": "letters-driver-1"}),
            "port-forward": f"Forwarding from 127.0.0.1:{port} -> 9464\n",
        }
    )
    listed = fulmen("dead-letters", "list", "--topology", "letters", "--json").stdout
    assert [one["id"] for one in json.loads(listed)["letters"]] == ids(store)
    result = fulmen("dead-letters", "drop", ids(store)[0], "--topology", "letters", *WHY)
    assert result.stdout == "1 dead letter removed.\n"
    assert len(ids(store)) == 1


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        (
            "action=replay",
            400,
            "There are action (replay or drop), by, because, and id, as often as needed; or action"
            " send with one id, and messages as lines of JSON.",
        ),
        ("action=burn&id=1-1-1", 400, "There are action (replay or drop), by, because, and id,"),
        (
            "action=drop&id=1-1-1&from=me",
            400,
            "There are action (replay or drop), by, because, and id,",
        ),
        ("action=drop&id=1-1-1", 200, '{"taken":0,"is_all":true,"sent_in":0}'),
        ("action=send&id=1&id=2", 400, "There are action (replay or drop), by, because, and id,"),
        ("action=send&id=1", 400, "Nothing was sent.\nThere is no message."),
    ],
)
def test_what_a_server_is_asked_for(store, running, query, code, said):
    answered, text = posted(running, query)
    assert answered == code
    assert text.startswith(said)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil"}, {"Sec-Fetch-Site": "cross-site"}])
def test_pages_of_others_change_nothing(store, running, headers):
    query = "&".join(["action=drop", *(f"id={one}" for one in ids(store))])
    said = 403, "Tuples are not shown to pages of others."
    assert posted(running, query, **headers) == said
    assert len(ids(store)) == 2


def posted(url, query, **headers):
    request = Request(f"{url}api/dead-letters?{query}", b"", headers)
    try:
        with urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()
