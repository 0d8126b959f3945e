"""Values of environment variables that a `config` names: where they go, and where they don't."""

import copy
import logging
import pickle
import subprocess
import sys

import pytest

from fulmen import TopologyBuilder, TransactionalTopologyBuilder, secrets
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import BoltHarness, ListSpout, run
from support.parts import told_parts
from support.parts.secret_parts import Away, Keeper, Opener, Teller

DSN = "postgresql://me:hunter%2F2@db-of-mine/shop"
PASSWORDS = ("hunter/2", "hunter%2F2")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("SECRET_DSN", DSN)
    monkeypatch.setenv("SECRET_TOPIC", "orders-of-mine")
    monkeypatch.setenv("SECRET_LONG", "hunter" * 10)


def builder(bolt, words, own=None, **spec):
    made = TopologyBuilder(**spec)
    made.set_spout("words", ListSpout(words, fields=["word"]))
    declarer = made.set_bolt("bolt", bolt).shuffle_grouping("words")
    declarer.set_config({"dsn": "${SECRET_DSN}"} if own is None else own)
    return made


def everything_in(store):
    """All bytes of a checkpoint."""
    return b"".join(store.get(key) for key in store.list(""))


KEPT = {"dsn": "${SECRET_DSN}", "password": "${SECRET_DSN}", "nested": {"a": ["${SECRET_DSN}"]}}


def test_a_checkpoint_has_no_secret():
    made = builder(Keeper, ["a", "b"], KEPT, config={"topic": "${SECRET_TOPIC}"})
    result = run(made)
    content = everything_in(result.checkpoint)
    assert b"number" in content
    assert b"${SECRET_DSN}" in content
    for secret in (DSN, *PASSWORDS):
        assert secret.encode() not in content


def test_what_is_made_of_a_secret_is_there_after_a_restart():
    made = builder(
        Keeper, ["a", "b", "c"], KEPT, config={"topic": "${SECRET_TOPIC}"}, max_spout_pending=1
    )
    first = run(made, batches=2)
    second = run(made, checkpoint=first, batches=2)
    last = run(made, checkpoint=second)
    fields = last.fields("bolt")
    assert fields["number"] == 3
    assert fields["settings"] == {"dsn": DSN, "n": 3}
    assert fields["counts"] == {"orders-of-mine": 3}
    assert fields["seen"] == ["orders-of-mine"]
    assert last.state("bolt") == {"dsn": DSN, "orders-of-mine": 3}
    assert not {"url", "from_model", "password", "made", "options", "given"} & fields.keys()


def test_what_the_engine_gave_is_no_field():
    result = run(builder(Keeper, ["a"], {"dsn": "plain", "topic": "plain"}))
    fields = result.fields("bolt")
    assert fields["dsn"] == "plain"
    assert not {"options", "given", "context"} & fields.keys()


def test_another_value_of_a_variable_is_taken(monkeypatch):
    made = builder(Keeper, ["a", "b"], KEPT, config={"topic": "${SECRET_TOPIC}"})
    first = run(made, batches=1)
    monkeypatch.setenv("SECRET_DSN", "postgresql://me:changed-it@db-of-mine/shop")
    last = run(made, checkpoint=first)
    assert last.fields("bolt")["settings"]["dsn"].endswith("changed-it@db-of-mine/shop")
    assert last.state("bolt")["dsn"].endswith("changed-it@db-of-mine/shop")


def test_a_bolt_has_the_value_itself():
    with BoltHarness(Keeper, conf={**KEPT, "topic": "t"}) as bolt:
        assert (bolt.bolt.dsn, bolt.bolt.url) == (DSN, f"{DSN}/more")
        assert bolt.bolt.password.get_secret_value() == DSN
        assert bolt.bolt.options.nested == {"a": [DSN]}
        bolt.restart()
        assert (bolt.bolt.dsn, bolt.bolt.url) == (DSN, f"{DSN}/more")
        assert bolt.errors == []


WAYS = ["raise", "fail", "give-up", "report", "part", "long", "hostile", "emit"]


@pytest.mark.parametrize("way", WAYS)
def test_no_error_tells_a_secret(way):
    own = {"dsn": "${SECRET_DSN}", "long": "${SECRET_LONG}"}
    made = builder(Teller, [way], own, max_replays=0)
    dead = made.set_bolt("dead", Teller).set_config(own)
    dead.shuffle_grouping("words", "__dead_letters")
    result = run(made, emits=True)
    told = [(e.message, e.traceback) for e in result.errors]
    said = repr([told, result.notes, result.emits, result.report, result.failed("words")])
    assert "hunter" not in said
    assert any(shown in said for shown in ("${SECRET_DSN}", "${SECRET_LONG}", "xxx", "'nowhere'"))
    assert b"hunter" not in everything_in(result.checkpoint)


def test_the_name_of_a_service_that_is_away_tells_no_secret():
    result = run(builder(Away, ["a"]))
    assert [e.service for e in result.errors] == ["a shop at ${SECRET_DSN}"]


def test_a_fatal_error_tells_no_secret():
    with pytest.raises(TopologyFailed) as raised:
        run(builder(Opener, ["a"]))
    assert "no connection to ${SECRET_DSN}" in str(raised.value)
    assert "hunter" not in str(raised.value)


def test_no_entry_of_a_log_tells_a_secret(caplog):
    with caplog.at_level(logging.INFO):
        run(builder(Teller, ["log"]))
    assert "no connection to ${SECRET_DSN}" in caplog.text
    assert "ValueError: ${SECRET_DSN}" in caplog.text
    assert "hunter" not in caplog.text


def test_an_entry_whose_arguments_do_not_fit_tells_no_secret(caplog):
    secrets.note("${SECRET_DSN}", DSN, {"SECRET_DSN": DSN})
    logging.getLogger("shop").error("one %s, two %s", DSN)
    assert "${SECRET_DSN}" in caplog.text
    assert "hunter" not in caplog.text


def test_a_variable_that_is_not_set_is_one_error():
    made = builder(Teller, ["a"], {"dsn": "${SECRET_NONE}"})
    with pytest.raises(TopologyFailed) as raised:
        run(made)
    assert (
        "spec.bolts[0].config.dsn: bolt 'bolt': the environment variable 'SECRET_NONE' is not set. "
        "Set it (on Kubernetes in spec.env), or give a default: ${SECRET_NONE:-value}."
    ) in str(raised.value)


@pytest.fixture
def told():
    told_parts.TOLD.clear()
    return told_parts.TOLD


OWN = {"secret": "${SECRET_DSN}"}
SHARED = {"all": "${SECRET_TOPIC}"}


def test_all_kinds_of_components_are_told_their_options(told):
    made = TopologyBuilder(config=SHARED)
    for name in ("Once", "Pinned"):
        made.set_spout(name, getattr(told_parts, name)).set_config(OWN)
    rows = made.set_bolt("rows", told_parts.Rows).set_config(OWN)
    rows.shuffle_grouping("Once").shuffle_grouping("Pinned")
    columns = made.set_bolt("columns", told_parts.Columns).set_config(OWN)
    columns.custom_grouping("rows", told_parts.First)
    assert run(made).trees["acked"] == 2
    every = {name: [DSN, DSN, "orders-of-mine"] for name in ("Once", "Pinned", "Rows", "Columns")}
    of_grouping = [DSN, None, "orders-of-mine"]
    assert {name: rest for name, *rest in told} == {**every, "First": of_grouping}


def test_all_parts_of_a_transactional_topology_are_told_their_options(told):
    made = TransactionalTopologyBuilder("tx", "source", told_parts.Source, config=SHARED)
    made.get_spout_declarer().set_config(OWN)
    made.set_bolt("finisher", told_parts.Finisher).shuffle_grouping("source").set_config(OWN)
    run(made)
    assert {name: rest for name, *rest in told} == {
        name: [DSN, DSN, "orders-of-mine"] for name in ("Coordinator", "Emitter", "Finisher")
    }


def test_a_coordinator_without_its_variable_is_an_error_that_names_it():
    spec = {"config": {"all": "x"}, "on_error": "crash"}
    made = TransactionalTopologyBuilder("tx", "source", told_parts.Source, **spec)
    made.get_spout_declarer().set_config({"secret": "${SECRET_NONE}"})
    made.set_bolt("finisher", told_parts.Finisher).shuffle_grouping("source").set_config(OWN)
    with pytest.raises(TopologyFailed, match="'SECRET_NONE' is not set"):
        run(made)


def test_a_value_that_is_not_right_is_not_shown(monkeypatch):
    monkeypatch.setenv("SECRET_NESTED", "not-a-mapping")
    with pytest.raises(ValidationFailed) as raised:
        BoltHarness(Keeper, conf={"nested": "${SECRET_NESTED}"})
    assert str(raised.value) == (
        "config.nested: bolt 'bolt': nested is '${SECRET_NESTED}', but must be a mapping. It is "
        "the value of the environment variable SECRET_NESTED."
    )


@pytest.mark.parametrize("value", ["", "abc", "true", "65535", "localhost"])
def test_what_is_short_or_plain_is_no_secret(value):
    secrets.note("${SECRET_PLAIN}", value, {"SECRET_PLAIN": value})
    assert secrets.masked(f"<{value}>") == f"<{value}>"


def test_a_short_value_is_masked_as_a_word_only():
    secrets.note("${SECRET_WORD}", "qwert", {"SECRET_WORD": "qwert"})
    assert secrets.masked("qwert qwertz 'qwert'") == "${SECRET_WORD} qwertz '${SECRET_WORD}'"


@pytest.mark.parametrize(
    "form", [str, repr, lambda s: s.encode("unicode_escape").decode(), lambda s: s.split("\n")[1]]
)
def test_other_forms_of_a_value_are_masked(form):
    value = "first \"line\" of it\nsecond line, 'with' more"
    secrets.note("${SECRET_LINES}", value, {"SECRET_LINES": value})
    assert "second line" not in secrets.masked(f"[{form(value)}]")


def test_passwords_of_urls_and_connection_strings_are_masked():
    text = "amqp://me:pass@h, host=h password=pass user=u; password='a b' x; amqp://h/me:no@x"
    assert secrets.without_passwords(text) == (
        "amqp://me:***@h, host=h password=*** user=u; password='***' x; amqp://h/me:no@x"
    )


def test_a_value_is_a_text_like_any_other():
    value = secrets.note("<${SECRET_DSN}>", f"<{DSN}>", {"SECRET_DSN": DSN})
    assert value == f"<{DSN}>"
    assert {value: 1}[f"<{DSN}>"] == 1
    assert copy.deepcopy([value])[0] is value
    assert copy.copy(value) is value
    assert type(pickle.loads(pickle.dumps(value))) is str
    assert pickle.loads(pickle.dumps(value)) == value


THREADS = """
import threading
from fulmen import secrets

def fail():
    raise ValueError("to hunter-2")

secrets.note("${X}", "hunter-2", {"X": "hunter-2"})
thread = threading.Thread(target=fail, name="poller")
thread.start()
thread.join()
threading.Thread(target=exit).start()
fail()
"""


def test_no_traceback_of_a_thread_tells_a_secret():
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        "Exception in thread poller:\nTraceback (most recent call last):"
    )
    assert ended.stderr.count("ValueError: to ${X}\n") == 2
    assert "hunter" not in ended.stderr


def test_a_text_of_another_process_is_not_known():
    assert secrets.restored("${SECRET_OF_OTHERS}") == "${SECRET_OF_OTHERS}"
