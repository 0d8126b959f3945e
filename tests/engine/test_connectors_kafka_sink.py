"""A topic of a real broker as a sink: at least once, or exactly once, whatever is killed."""

import time
import zlib

import pytest
from confluent_kafka.admin import AdminClient

from fulmen.api.components.sinks import Rows, ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.connectors.kafka import KafkaSink, KafkaSinkOptions
from fulmen.connectors.kafka.writing import producing
from fulmen.connectors.kafka.writing.producing import RowDelivery
from fulmen.errors import FulmenError
from support.lives.sink_lives import SinkLife, prepared
from support.suite.seeds import generator, several

N = {"type": "json", "fields": ["n"]}
TOO_LARGE = "the message is larger than `message.max.bytes`"


@pytest.fixture
def topic(request):
    """The name of this test's own topic."""
    return f"sink-{zlib.crc32(request.node.name.encode()):x}"


@pytest.fixture
def sink(kafka, topic):
    """Makes a task of a sink for this test's topic. Its rows have the fields `key` and `value`."""
    lives = []

    def made(address=kafka.address, fields=("key", "value"), **config):
        given = {"bootstrap.servers": address, "topic": topic, "keyField": "key"}
        options = KafkaSinkOptions.model_validate(given | config)
        lives.append(SinkLife(KafkaSink, options, fields, name=topic))
        return lives[-1]

    yield made
    for life in lives:
        life.sink.cleanup()


@pytest.fixture
def read(kafka, topic):
    """The values that a reader of committed messages sees."""
    return lambda **how: [message.value() for message in kafka.read(topic, **how)]


# ---- messages ------------------------------------------------------------------------------------


def test_fields_become_parts_of_the_message(kafka, topic, sink):
    kafka.make_topic(topic, 3)
    kafka.make_topic(f"{topic}-2", 1)
    fields = ("key", "n", "to", "at", "heads", "where")
    parts = {"partitionField": "to", "timestampField": "at", "headersField": "heads"}
    life = sink(fields=fields, topicField="where", **parts, format=N)
    heads = [("a", b"\xff"), ("a", "text"), ("b", None)]
    assert life.write((7, 1.5, 2, 1_700_000_000_123, heads, None)) == {}
    assert life.write((b"\xff", None, None, None, {"x": "y", "n": 7}, f"{topic}-2")) == {}
    (first,), (second,) = kafka.read(topic), kafka.read(f"{topic}-2")
    assert (first.key(), first.value()) == (b"7", b'{"n":1.5}')
    assert (first.partition(), first.timestamp()[1]) == (2, 1_700_000_000_123)
    assert first.headers() == [("a", b"\xff"), ("a", b"text"), ("b", None)]
    assert (second.key(), second.headers()) == (b"\xff", [("x", b"y"), ("n", b"7")])


def test_with_text_null_makes_a_message_without_a_value(kafka, topic, sink):
    kafka.make_topic(topic, 1, cleanup_policy="compact")
    sink().write(("a", "1"), ("a", None), (3, 2))
    found = [(message.key(), message.value()) for message in kafka.read(topic)]
    assert found == [(b"a", b"1"), (b"a", None), (b"3", b"2")]


@pytest.mark.parametrize(("policy", "key"), [("compact", ["key", "to"]), ("delete", [])])
def test_what_a_row_has_written_can_be_deleted_from_a_compacted_topic(
    kafka, topic, sink, policy, key
):
    kafka.make_topic(topic, 2, cleanup_policy=policy)
    life = sink(fields=("key", "value", "to"), partitionField="to")
    assert life.write(("a", "1", 1)) == {}
    [item], _ = life.encoded(("a", "1", 1))
    assert life.sink.key_fields == key
    life.sink.write(Rows(("key", "value", "to"), [life.sink.deletion(item)]), None)
    found = [(m.key(), m.value(), m.partition()) for m in kafka.read(topic)]
    assert found == [(b"a", b"1", 1), (b"a", None, 1)]


def test_rows_that_can_be_no_message_are_refused_before_anything_is_written(kafka, topic, sink):
    kafka.make_topic(topic)
    life = sink(fields=("key", "value", "to", "heads"), partitionField="to", headersField="heads")
    rows = [(3j, "a", 0, {}), ("k", "b", -1, {}), ("k", "c", 0, 7), ("k", "d", 0, {})]
    items, refused = life.encoded(*rows)
    assert [value for _, value, *_ in items] == [b"d"]
    assert refused == {
        0: "the key: complex 3j has no form in JSON. Convert it in a bolt before",
        1: "a partition must be an integer from 0 to 2147483647, not -1",
        2: "headers must be a mapping, or pairs of a name and a value",
    }


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_rows_that_the_topic_refuses_are_told_and_the_others_written(
    kafka, topic, sink, read, number
):
    kafka.make_topic(topic, 1, max_message_bytes="2000")
    rows = [(str(n), "x" * 100) for n in range(100)]
    rows[17] = rows[60] = ("large", "y" * 3000)
    for _ in range(2):  # a repetition refuses the same ones
        refused = sink().write_at_last(*rows, number=number)
        assert list(refused) == [17, 60]
        assert refused[17].startswith(TOO_LARGE)
    assert len(read()) == (98 if number else 2 * 98)
    assert sink().write_at_last(("k", "after"), number=number and 2) == {}
    assert read()[-1] == b"after"


def test_rows_of_topics_and_partitions_that_there_are_not_are_refused(kafka, topic, sink, read):
    kafka.make_topic(topic)
    life = sink(fields=("key", "value", "to"), partitionField="to")
    for number in (None, 1):
        rows = [("a", "1", 0), ("b", "2", 9), ("c", "3", None)]
        assert life.write_at_last(*rows, number=number) == {1: "there is no such partition"}
    assert sorted(read()) == [b"1", b"1", b"3", b"3"]


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_rows_for_topics_that_there_are_not_are_refused(
    kafka, topic, sink, read, number, monkeypatch
):
    monkeypatch.setattr(producing, "UNKNOWN_SECONDS", 0.5)
    kafka.make_topic(topic)
    rows = [
        ("a", "1", None),
        ("b", "2", f"{topic}-missing"),
        ("c", "3", "no name!"),
        ("d", "4", None),
    ]
    refused = sink(fields=("key", "value", "to"), topicField="to").write(*rows, number=number)
    assert refused.keys() == {1, 2}
    assert refused[1].startswith("there is no such topic")
    assert refused[2] == "there can be no topic of that name"
    assert sorted(read()) == [b"1", b"4"]


def test_any_number_of_rows_may_be_refused(kafka, topic, sink, read):
    """For a partition that is not there; at random, so that a mark needs several pages."""
    kafka.make_topic(topic)
    fields = ("key", "value", "to")
    with generator(several(1)[0]) as rng:
        rows = [(str(n), str(n), rng.choice((0, 9))) for n in range(20_000)]
    bad = [n for n, (_, _, to) in enumerate(rows) if to == 9]
    for _ in range(2):
        life = sink(fields=fields, partitionField="to")
        assert list(life.write_at_last(*rows, number=1)) == bad
    assert len(read()) == len(rows) - len(bad)


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_refused_rows_take_none_with_them_that_was_sent_in_the_same_batch(
    kafka, topic, sink, read, number
):
    """If one message of a batch is refused, the client gives all of them its code; of two, not."""
    kafka.make_topic(topic, 2, cleanup_policy="compact")
    rows = [(None if n <= to else f"{n}", f"{to}-{n}", to) for n in range(9) for to in (0, 1)]
    fields = ("key", "value", "to")
    refused = sink(fields=fields, partitionField="to").write_at_last(*rows, number=number)
    assert sorted(refused) == [n for n, row in enumerate(rows) if row[0] is None]
    assert len(set(read())) == len(rows) - len(refused)


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_many_rows_of_times_that_the_topic_refuses_cost_no_transaction_each(
    kafka, topic, sink, read, monkeypatch, number
):
    kafka.make_topic(topic, 3, message_timestamp_before_max_ms="9500000")
    now = time.time_ns() // 1_000_000
    rows = [(f"{n}", f"{n}", now + (n * 7919 % 41 - 20) * 1_000_000) for n in range(1000)]
    begun, write = [], RowDelivery.write
    monkeypatch.setattr(RowDelivery, "write", lambda *a: begun.append(1) or write(*a))
    fields = ("key", "value", "at")
    refused = sink(fields=fields, timestampField="at").write_at_last(*rows, number=number)
    assert len(begun) <= 60
    assert sorted(refused) == [n for n, row in enumerate(rows) if not -9.5e6 < row[2] - now < 3.6e6]
    assert len(set(read())) == len(rows) - len(refused)


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize(
    ("settings", "bad"),
    [
        ({"cleanup_policy": "compact"}, lambda n: (None, f"{n}")),
        ({"max_message_bytes": "2000"}, lambda n: (str(n), "y" * (2000 + n))),
    ],
    ids=["key", "size"],
)
def test_many_refused_rows_cost_no_transaction_each(
    kafka, topic, sink, read, monkeypatch, settings, bad, number
):
    kafka.make_topic(topic, 3, **settings)
    rows = [bad(n) if n % 2 else (str(n), f"x{n}") for n in range(1000)]
    wrong = {value for _, value in rows[1::2]}
    begun, write = [], RowDelivery.write
    monkeypatch.setattr(RowDelivery, "write", lambda *a: begun.append(1) or write(*a))
    refused = sink().write_at_last(*rows, number=number)
    assert len(begun) <= 50
    assert len(set(read())) == len({value for _, value in rows}) - len(wrong)
    assert list(refused) == [n for n, (_, value) in enumerate(rows) if value in wrong]


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_a_row_that_is_too_large_by_its_many_headers_takes_no_longer_one_with_it(
    kafka, topic, sink, read, number
):
    """Each header has lengths of its own beside its name and its value."""
    kafka.make_topic(topic, 1, max_message_bytes="1000")
    heavy = ("k", "y" * 850, [("h", b"")] * 40)
    rows = [heavy] * 50 + [("k", "x" * 900, None)] * 2
    life = sink(fields=("key", "value", "heads"), headersField="heads")
    assert list(life.write_at_last(*rows, number=number)) == list(range(50))
    assert set(read()) == {b"x" * 900}


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_rows_wait_for_a_topic_that_is_gone_if_only_their_partitions_are_of_them(
    kafka, topic, sink, read, monkeypatch, number
):
    monkeypatch.setattr(producing, "UNKNOWN_SECONDS", 0.5)
    kafka.make_topic(topic)
    life = sink(fields=("key", "value", "to"), partitionField="to")
    kafka.delete_topic(topic)
    with pytest.raises(ServiceUnavailable):
        life.write(("a", "1", 0), ("b", "2", None), number=number)
    kafka.make_topic(topic)
    assert life.write_at_last(("a", "1", 0), ("b", "2", 7), number=number) == {
        1: "there is no such partition"
    }
    assert read() == [b"1"]


@pytest.mark.parametrize("number", [None, 1], ids=["at-least-once", "exactly-once"])
def test_rows_of_the_topic_of_the_sink_wait_for_it_if_others_name_their_own(
    kafka, topic, sink, read, monkeypatch, number
):
    monkeypatch.setattr(producing, "UNKNOWN_SECONDS", 0.5)
    kafka.make_topic(topic)
    life = sink(fields=("key", "value", "to"), topicField="to")
    kafka.delete_topic(topic)
    with pytest.raises(ServiceUnavailable):
        life.write(("a", "1", None), number=number)
    kafka.make_topic(topic)
    assert life.write_at_last(("a", "1", None), number=number) == {}
    assert read() == [b"1"]


# ---- exactly once --------------------------------------------------------------------------------


def test_what_is_written_is_not_written_again(kafka, topic, sink, read):
    kafka.make_topic(topic, 2)
    life = sink()
    for number in (1, 1, 2, 2):
        life.write(("k", str(number)), number=number)
    life.kill()
    life.write_at_last(("k", "2"), number=2)
    life.write(("k", "3"), number=3)
    assert read() == [b"1", b"2", b"3"]


def test_a_topic_whose_mark_is_not_the_one_before_takes_nothing(kafka, topic, sink, read):
    kafka.make_topic(topic, 2)
    life = sink()
    with pytest.raises(StoreMismatch, match="the store has no commit"):  # a topic made anew
        life.write_at_last(("k", "5"), number=5)
    life.write_at_last(("k", "1"), number=1)
    life.kill()
    with pytest.raises(StoreMismatch, match="the store is older than the checkpoint"):
        life.write_at_last(("k", "3"), number=3)
    assert read() == [b"1"]


def test_a_mark_that_brokers_have_forgotten_is_not_missed(kafka, topic, sink, read):
    kafka.make_topic(topic, 2)
    life = sink()
    life.write_at_last(("k", "1"), number=1)
    life.kill()
    admin = AdminClient({"bootstrap.servers": kafka.address})
    [deleted] = admin.delete_consumer_groups([f"fulmen-{topic}"]).values()
    deleted.result(10)
    life.write_at_last(("k", "2"), number=2)
    assert read() == [b"1", b"2"]


def test_an_older_process_cannot_write_beside_a_newer_one(kafka, topic, sink, read):
    kafka.make_topic(topic)
    life = sink()
    life.write(("k", "1"), number=1)
    older = SinkLife(KafkaSink, life.options, life.fields, name=topic)
    older.sink = life.kill()
    life.write_at_last(("k", "1"), number=1)
    with pytest.raises(ServiceUnavailable, match="another process writes in the place of this one"):
        older.write(("k", "2"), number=2)
    life.write_at_last(("k", "2"), number=2)
    life.write(("k", "3"), number=3)
    with pytest.raises(StoreMismatch, match=r"the store has commit 3 \(tag-3\)"):
        older.write_at_last(("k", "2"), number=2)
    assert read() == [b"1", b"2", b"3"]
    assert read(isolation="read_uncommitted") == [b"1", b"2", b"3"]


def test_commits_without_a_row_move_the_mark_too(kafka, topic, sink, read):
    kafka.make_topic(topic, 1, max_message_bytes="2000")
    life = sink()
    assert list(life.write_at_last(("k", "y" * 3000), number=1)) == [0]
    life.kill()
    assert list(life.write_at_last(("k", "y" * 3000), number=1)) == [0]
    assert read() == []


# ---- outages -------------------------------------------------------------------------------------


def harm(rng, kafka, life, writes):
    """What may happen at a write: a cut, a kill of the broker or of the process, or nothing."""
    match rng.randrange(8):
        case 0 | 1:
            kafka.proxy.cut_after(rng.randrange(3000))
        case 2:
            kafka.proxy.cut()
        case 3 if rng.random() < 0.5:
            kafka.kill()
            kafka.start()
        case 4 | 5:
            life.kill()
        case 6:
            writes(life)  # and the process is lost before it tells
            life.kill()
        case _:
            return 0
    return 1


def written_under_harm(seed, kafka, topic, life, faults, *, exactly):
    """Batches of rows are written while harm is done. Gives the values of all rows."""
    wanted, done, number = [], 0, 0
    with generator(seed) as rng:
        while done < faults:
            number += 1
            rows = [(str(n), f"{number}-{n}") for n in range(rng.randrange(1, 40))]
            wanted += [value.encode() for _, value in rows]

            def writes(life, rows=rows, number=number):
                return life.write_at_last(*rows, number=number if exactly else None)

            done += harm(rng, kafka, life, writes)
            assert writes(life) == {}
    return wanted


@pytest.mark.matrix(share=1 / 2, name="connectors whose broker is killed", cell="exactly once")
@pytest.mark.parametrize("seed", several(1))
@pytest.mark.timeout(180)
def test_each_row_is_written_exactly_once(kafka, topic, sink, read, seed):
    kafka.make_topic(topic, 3)
    wanted = written_under_harm(seed, kafka, topic, sink(kafka.proxied), 8, exactly=True)
    assert sorted(read()) == sorted(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", several(1))
@pytest.mark.timeout(900)
def test_each_row_is_written_exactly_once_under_many_faults(kafka, topic, sink, read, seed):
    kafka.make_topic(topic, 3)
    wanted = written_under_harm(seed, kafka, topic, sink(kafka.proxied), 60, exactly=True)
    assert sorted(read()) == sorted(wanted)


@pytest.mark.matrix(share=1 / 2, name="connectors whose broker is killed", cell="at least once")
@pytest.mark.parametrize("seed", several(1))
@pytest.mark.timeout(180)
def test_with_at_least_once_no_row_is_lost(kafka, topic, sink, read, seed):
    kafka.make_topic(topic, 3)
    wanted = written_under_harm(seed, kafka, topic, sink(kafka.proxied), 8, exactly=False)
    assert set(read()) == set(wanted)


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"topic": "absent"}, ServiceUnavailable, "there is no topic 'absent'"),
        ({"bootstrap.servers": "127.0.0.1:1"}, ServiceUnavailable, "Kafka at 127.0.0.1:1 is away"),
        ({"properties": {"linger": 5}}, ValueError, 'No such configuration property: "linger"'),
        ({"keyField": "kye"}, FulmenError, "`keyField` is 'kye', but the fields are"),
        ({"format": {"type": "json", "fields": ["x"]}}, FulmenError, "there is no field 'x'"),
    ],
    ids=["topic", "address", "property", "field", "format"],
)
def test_what_is_wrong_is_said_when_it_is_prepared(kafka, topic, changes, error, text):
    kafka.make_topic(topic)
    given = {"bootstrap.servers": kafka.address, "topic": topic, "keyField": "key"} | changes
    options = KafkaSinkOptions.model_validate(given)
    with pytest.raises(error, match=text):
        prepared(KafkaSink, options, ("key", "value"))
