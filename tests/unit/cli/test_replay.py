"""`fulmen replay`: what a sink of dead letters wrote to files is sent again."""

import gzip
import json
from contextlib import closing
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from fulmen.checkpoint import Store, load, read_newest
from fulmen.connectors.files import FileSink
from fulmen.engine.driver.driver import Stop
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.engine.state.letters.message_lines import MessageLineReader, MessagePart, SentFrom
from support.parts.refusing import LIMIT, Mended, ran, refusing, running_with
from support.runs.engine_runs import A_PERSON, make_driver, state_of

WHY = "--because", "a test"
SEND = "api/dead-letters?action=send&id=1"


@pytest.fixture
def store(tmp_path):
    return Store.open((tmp_path / "kept").as_uri())


def written(tmp_path, store, **options):
    """The files of a sink of dead letters."""
    builder = refusing()
    sink = builder.set_bolt("dead", FileSink)
    sink.global_grouping("source", "__dead_letters")
    sink.set_config({"path": str(tmp_path / "dead"), "format": {"type": "json"}, **options})
    driver = make_driver(builder, store=store).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    return sorted((tmp_path / "dead").iterdir())


def counted(store):
    return state_of(ran(store, Mended), "count")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}, {"anyStream": True}])
def test_what_a_file_sink_wrote_of_dead_letters_is_sent_once(fulmen, tmp_path, store, options):
    files = written(tmp_path, store, **options)
    to = [] if "anyStream" in options else ["--to", "source"]
    result = fulmen("replay", *map(str, files), "--checkpoint", "kept", *to, *WHY)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "2 messages will be sent when the topology starts next.\n"
    assert counted(store) == dict.fromkeys(range(LIMIT), 1)
    assert counted(store) == dict.fromkeys(range(LIMIT), 1)
    assert {one.letter.state for one in read_letters(store).letters} == {"kept"}


def test_rows_of_other_files_are_sent_with_to(fulmen, tmp_path, store):
    ran(store)
    lines = [{"row": {"number": 2}}, {"values": [3], "reason": "by hand"}]
    file = tmp_path / "rows.json.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    result = fulmen("replay", str(file), "--checkpoint", "kept", "--to", "source:default", *WHY)
    assert result.exit_code == 0
    assert counted(store) == dict.fromkeys(range(LIMIT), 1)


def test_all_mistakes_are_told_and_nothing_is_sent(fulmen, tmp_path, store):
    ran(store)
    file = tmp_path / "rows"
    lines = ["{", "7", '{"values": 3}', '{"values": [3], "component": "count"}', '{"values": [3]}']
    file.write_text('{"values": [2], "component": "source"}\n' + "\n".join(lines))
    result = fulmen("replay", str(file), "--checkpoint", "kept", *WHY)
    assert result.exit_code == 2
    for text in (
        "5 problems:",
        f"{file}:2: Expecting property name",
        f"{file}:3: no object of JSON",
        f"{file}:4: it has no list or object in 'values', or in 'row'",
        f"{file}:5: messages can't be sent from 'count', as no trees begin there. There are: ",
        f"{file}:6: it names no component to be sent from. Say it with --to.",
    ):
        assert text in result.stderr
    result = fulmen("replay", str(file), "--checkpoint", "kept", "--to", "sorce", *WHY)
    assert result.stderr == (
        "Error: --to: messages can't be sent from 'sorce', as no trees begin there."
        " Did you mean 'source'?\n"
    )
    assert {one.letter.state for one in read_letters(store).letters} == {"kept"}


def test_a_message_with_other_fields_than_its_stream_stays_a_letter_and_says_so(
    fulmen, tmp_path, store
):
    ran(store)
    (tmp_path / "rows").write_text('{"values": [2, 3]}')
    fulmen("replay", "rows", "--checkpoint", "kept", "--to", "source", *WHY)
    counted(store)
    newest = read_letters(store).letters[0].letter
    assert (newest.state, newest.reason) == (
        "kept",
        "it has 2 values, and stream 'default' 1 fields",
    )


@pytest.fixture
def running(store):
    """The topology, mended, until the test ends it: its URL."""
    with running_with(store, Mended) as url:
        yield url


def test_a_running_topology_sends_messages_of_files_each_once_and_the_log_says_so(
    fulmen, tmp_path, store, request
):
    files = written(tmp_path, store)
    url = request.getfixturevalue("running")
    asked = "replay", *map(str, files), "--to", "source", *WHY, "--url", url
    result = fulmen(*asked)
    assert (result.stdout, result.stderr) == ("2 messages will be sent.\n", "")
    log = json.loads(fulmen("state", "log", "kept", "-o", "json").stdout)
    assert [(one["action"], one["component"], one["count"]) for one in log] == [
        ("send", "source", 2)
    ]
    while any(one.letter.state != "kept" for one in read_letters(store).letters):
        pass
    again = fulmen(*asked)
    commits = ", ".join(str(one["number"]) for one in reversed(log))
    assert again.stdout == "0 messages will be sent.\n"
    assert again.stderr == (
        f"2 messages were sent before, with commit {commits}, and are left out. --again sends them"
        " once more.\n"
    )
    assert counts(store) == dict.fromkeys(range(LIMIT), 1)
    assert fulmen(*asked, "--again").stdout == "2 messages will be sent.\n"
    while counts(store) != {0: 1, 1: 1, 2: 2, 3: 2, 4: 1}:
        pass


def counts(store):
    """What the bolt has counted by the newest commit."""
    found = {}
    for task in range(2):
        journals = load(store, read_newest(store), f"count/{task}")
        found |= KeyedState.restore(journals)
    return found


def test_a_driver_takes_a_part_once_however_often_it_is_asked(store):
    ran(store)
    driver = make_driver(refusing(Mended), store=store).start()
    letters, part = driver._taps.letters, a_part("7", [8, 9])
    for _ in range(2):  # nobody waits for the answer
        assert letters.send(part, A_PERSON, 0.0)[:2] == (0, False)
    driver.step()
    sent = letters.send(part, A_PERSON, 0.0)
    assert sent.sent_in == driver.log.manifest.number
    driver.run(Stop(when_drained=True))
    driver.close()
    assert state_of(driver, "count") == {0: 1, 1: 1, 4: 1, 8: 1, 9: 1}


def a_part(name, numbers):
    lines = [json.dumps({"values": [number], "component": "source"}) for number in numbers]
    reader = MessageLineReader(SentFrom("", "", ["source"]), 0.0)
    reader.read("lines", lines)
    return MessagePart(name, reader.parts[0].messages, b"")


def test_what_was_sent_of_a_stopped_topology_is_not_sent_again_and_lines_come_by_a_pipe(
    fulmen, tmp_path, store
):
    files = written(tmp_path, store)
    lines = b"".join(file.read_bytes() for file in files)
    asked = "replay", "-", "--checkpoint", "kept", "--to", "source", *WHY
    for told in ("2 messages", "0 messages"):
        assert fulmen(*asked, typed=lines).stdout.startswith(f"{told} will be sent")
    assert counted(store) == dict.fromkeys(range(LIMIT), 1)


def test_messages_of_files_are_read_by_a_server_as_by_the_command(running):
    content = b'{"values": [2], "component": "source"}\n{"values": 3}\n'
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{running}{SEND}", content), timeout=20)
    with refused.value as answer:
        said = answer.read().decode()
    assert answer.code == 400
    assert "message:2: it has no list or object in 'values', or in 'row'." in said


def test_a_server_reads_no_more_than_it_can_spare(running):
    with closing(HTTPConnection(urlsplit(running).netloc, timeout=20)) as connection:
        connection.putrequest("POST", f"/{SEND}")
        connection.putheader("Content-Length", str(5 << 20))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 413
        assert answer.read().startswith(b"The messages have more than 4,194,304 bytes")


def test_a_message_that_is_too_large_for_a_server_is_told_and_nothing_is_sent(
    fulmen, tmp_path, store, running
):
    lines = [json.dumps({"values": [value]}) for value in (7, "x" * (5 << 20))]
    (tmp_path / "rows").write_text("\n".join(lines))
    result = fulmen("replay", "rows", "--to", "source", *WHY, "--url", running)
    assert result.exit_code == 2
    assert "and a topology that runs takes 4,194,304 at once. Nothing was sent." in result.stderr
    assert read_letters(store).letters == []
