"""A topic of a real broker as a source: nothing is lost, and nothing skipped in silence."""

import datetime
import time
import zlib

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.kafka import KafkaSink, KafkaSinkOptions, KafkaSpout, KafkaSpoutOptions
from fulmen.connectors.kafka.reading.topic import first_positions
from support.lives.sink_lives import SinkLife
from support.lives.spout_lives import SpoutLife
from support.servers.kafka_server import PASSWORD, USER
from support.suite.seeds import generator, several

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORD,
}


@pytest.fixture
def topic(request):
    """The name of this test's own topic."""
    return f"source-{zlib.crc32(request.node.name.encode()):x}"


@pytest.fixture
def spout(kafka, topic):
    """Makes tasks of a spout for this test's topic."""
    lives = []

    def made(address=kafka.address, task=0, tasks=1, **config):
        given = {"bootstrap.servers": address, "topic": topic, "refreshSeconds": 0.2}
        options = KafkaSpoutOptions.model_validate(given | config)
        lives.append(SpoutLife(KafkaSpout, options, task, tasks))
        return lives[-1]

    yield made
    for life in lives:
        life.close()


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def values(emitted):
    return [row[0] for row, stream, _ in emitted if stream == "default"]


def on_errors(emitted):
    return [row for row, stream, _ in emitted if stream == "errors"]


# ---- what is emitted ----------------------------------------------------------------------------


def test_partitions_are_divided_among_the_tasks(kafka, topic, spout):
    kafka.make_topic(topic, 3)
    for partition in range(3):
        kafka.produce(topic, numbers(10 * partition, 10 * partition + 4), partition=partition)
    even, odd = spout(task=0, tasks=2), spout(task=1, tasks=2)
    even.until_emitted(8)
    odd.until_emitted(4)
    assert sorted(values(even.emitted)) == ["0", "1", "2", "20", "21", "22", "23", "3"]
    assert values(odd.emitted) == ["10", "11", "12", "13"]
    assert (even.spout.positions, odd.spout.positions) == ({0: 4, 2: 4}, {1: 4})


def test_a_partition_that_has_messages_is_waited_for_until_it_has_emitted(kafka, topic, spout):
    kafka.make_topic(topic, 3)
    for partition in range(2):
        kafka.produce(topic, numbers(0, 3), partition=partition)
    life = spout()

    def all_are_emitted():
        begun = {life.spout.part_of(msg_id) for _, _, msg_id in life.emitted}
        unread = {*life.spout.unread_parts()}
        assert {"0", "1"} - begun <= unread
        assert not begun & unread
        return begun == {"0", "1"} and not unread

    assert not all_are_emitted()
    life.until(all_are_emitted, "nothing to be waited for")


def test_the_lag_in_seconds_is_the_age_of_the_oldest_message_at_hand(kafka, topic, spout):
    kafka.make_topic(topic, 1)
    life = spout()
    began = int(1000 * (time.time() - 100_000))
    told = []

    def looks():
        kafka.produce(topic, numbers(0, 1), timestamp=began)
        life.spout.lag_due.soon()
        told.append(life.spout.context.signals.take_lag() or (None, None))
        return (told[-1][1] or 0) >= 100_000

    life.until(looks, "a lag in seconds")
    assert told[-1].messages > 0

    def is_zero():
        life.spout.lag_due.soon()
        return life.spout.context.signals.take_lag() == (0, 0.0)

    life.until(is_zero, "a lag of nothing")


@pytest.mark.parametrize("ends", ["commit_transaction", "abort_transaction"])
def test_the_mark_of_a_transaction_is_no_lag(kafka, topic, spout, ends):
    kafka.make_topic(topic, 1)
    kafka.produce(topic, numbers(0, 3))
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(4):
        producer.produce(topic, b"3")
    producer.flush()  # or they are never sent
    getattr(producer, ends)()
    life = spout()

    def lag():
        life.spout.lag_due.soon()
        return life.spout.context.signals.take_lag()

    life.until(lambda: life.spout.positions == {0: 8}, "the end of the partition")
    assert len(values(life.emitted)) == (7 if ends == "commit_transaction" else 3)
    life.until(lambda: lag() == (0, 0.0), "a lag of nothing")
    kafka.produce(topic, numbers(4, 5))
    life.until(lambda: values(life.emitted)[-1:] == ["4"], "what comes later")


def test_parts_of_a_message_are_fields(kafka, topic, spout):
    kafka.make_topic(topic, 2)
    headers = [("trace", b"\0\xff"), ("trace", None)]
    kafka.produce(topic, [b"7"], key="k", partition=1, timestamp=1_700_000_000_123, headers=headers)
    parts = ["key", "topic", "partition", "offset", "timestamp", "headers"]
    life = spout(include=parts, format={"type": "json"})
    life.until_emitted(1)
    assert life.emitted == [
        ([7, "k", topic, 1, 0, 1_700_000_000_123, headers], "default", (1, 0)),
    ]


def test_a_message_without_a_value_has_nulls(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, [None], key=b"\xff")
    kafka.produce(topic, [b'{"a": 1}'])
    json = {"type": "json", "fields": ["a", "b"]}
    life = spout(format=json, include=["key"], keyFormat="bytes")
    life.until_emitted(2)
    assert [row for row, _, _ in life.emitted] == [[None, None, b"\xff"], [1, None, None]]


def test_tombstones_that_are_left_out_are_passed_all_the_same(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, [b"1", None, None], key="k")
    life = spout(tombstones="drop", include=["key"])
    life.until(lambda: life.spout.positions.get(0) == 3, "the end")
    assert [row for row, _, _ in life.emitted] == [["1", "k"]]
    life.commit()
    kafka.produce(topic, [b"2", None], key="k")
    life.until_emitted(1)
    assert [row for row, _, _ in life.emitted] == [["2", "k"]]


def test_tombstones_go_from_a_source_to_a_topic_as_they_are(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.make_topic(f"{topic}-2")
    kafka.produce(topic, [b'{"a":1}', None], key="k")
    life = spout(tombstones="deleted", include=["key"], format={"type": "json", "fields": ["a"]})
    life.until_emitted(2)
    fields = life.spout.outputs_for(life.options)["default"].fields
    given = {"bootstrap.servers": kafka.address, "topic": f"{topic}-2", "keyField": "key"}
    json = {"format": {"type": "json", "fields": ["a"]}, "deletedField": "deleted"}
    sink = SinkLife(KafkaSink, KafkaSinkOptions.model_validate(given | json), fields)
    assert sink.write(*(tuple(row) for row, _, _ in life.emitted)) == {}
    sink.sink.cleanup()
    found = [(message.key(), message.value()) for message in kafka.read(f"{topic}-2")]
    assert found == [(b"k", b'{"a":1}'), (b"k", None)]


def test_what_cannot_be_read_goes_to_errors_and_stops_nothing(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, [b'{"a": 1}', b"oops", b'{"a": 3}'])
    kafka.produce(topic, [b'{"a": 4}'], key=b"\xff")
    life = spout(format={"type": "json", "fields": ["a"]}, include=["key"])
    life.until_emitted(4)
    assert [row for row, stream, _ in life.emitted if stream == "default"] == [[1, None], [3, None]]
    (data, reason, position), (_, wrong_key, _) = on_errors(life.emitted)
    assert (data, position) == (b"oops", f"{topic}[0]@1")
    assert reason.startswith("it is not JSON: ")
    assert wrong_key.startswith("its key is not text in utf-8: ")
    assert [msg_id for _, _, msg_id in life.emitted] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_what_a_transaction_took_back_is_not_read(kafka, topic, spout):
    kafka.make_topic(topic)
    settings = {"bootstrap.servers": kafka.address, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions()
    for value, ends in ((b"a", producer.commit_transaction), (b"b", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        ends()
    kafka.produce(topic, [b"c"])
    committed, everything = spout(), spout(**{"isolation.level": "read_uncommitted"})
    committed.until_emitted(2)
    everything.until_emitted(3)
    assert values(committed.emitted) == ["a", "c"]
    assert values(everything.emitted) == ["a", "b", "c"]


# ---- where it starts ----------------------------------------------------------------------------


def test_messages_are_on_their_way_before_the_first_turn(kafka, topic, spout):
    kafka.make_topic(topic, 2)
    life = spout()
    assert {place.partition for place in life.spout._consumer.assignment()} == {0, 1}


def test_it_can_start_at_the_end(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    life = spout(start="latest")  # which has not had a turn when its process is lost
    assert life.spout.positions == {0: 5}
    life.commit()
    kafka.produce(topic, numbers(5, 7))
    life.kill()
    life.until_emitted(2)
    assert values(life.emitted) == ["5", "6"]


def test_it_can_start_at_a_time(kafka, topic, spout):
    kafka.make_topic(topic, 2)
    for n in range(5):
        kafka.produce(topic, [b"%d" % n], timestamp=1_700_000_000_000 + n * 1000)
    kafka.produce(topic, [b"early"], partition=1, timestamp=1_600_000_000_000)
    at = datetime.datetime.fromtimestamp(1_700_000_002, datetime.UTC).isoformat()
    life = spout(start="timestamp", startTimestamp=at)
    life.until_emitted(3)
    assert values(life.emitted) == ["2", "3", "4"]
    assert life.spout.positions == {0: 5, 1: 1}


def test_it_can_start_where_a_group_was_and_tells_the_group(kafka, topic, spout):
    kafka.make_topic(topic, 2)
    for partition in (0, 1):
        kafka.produce(topic, numbers(0, 5), partition=partition)
    group = f"group-{topic}"
    settings = {"bootstrap.servers": kafka.address, "group.id": group}
    reader = Consumer(settings)
    reader.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    life = spout(start="group", **{"group.id": group})
    life.until_emitted(7)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    def told():
        return [part.offset for part in reader.committed(both, 10)]

    assert told() == [3, -1001]
    life.commit()
    life.until(lambda: told() == [5, 5], "the group's offsets")
    reader.close()


def test_a_group_with_other_members_is_reported_and_changes_nothing(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    group = f"group-{topic}"
    member = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    member.subscribe([topic])
    life = spout(**{"group.id": group})
    life.until_emitted(5)
    life.until(lambda: member.poll(0) is None and member.assignment(), "a member of the group")
    assert len(life.commit()) == 5
    life.until(lambda: life.reports, "a report")
    member.close()
    assert f"positions are not committed to group {group!r}" in life.reports[0]
    assert "give the spout a `group.id` of its own" in life.reports[0]


# ---- what goes wrong -----------------------------------------------------------------------------


def test_failed_messages_are_read_again_also_after_a_kill(kafka, topic, spout):
    kafka.make_topic(topic, 2)
    kafka.produce(topic, numbers(0, 5000))
    kafka.produce(topic, numbers(0, 10), partition=1)
    life = spout()
    life.until_emitted(5010)
    life.commit()
    failed = [(0, 3), (0, 2900), (0, 4999), (1, 0)]
    life.end(failed, "no")
    life.commit()
    life.kill()
    life.until_emitted(4)
    assert [msg_id for _, _, msg_id in life.commit()] == failed
    assert dict(life.spout.state) == {}
    assert life.turn() == 0


@pytest.mark.matrix(share=1 / 2, name="connectors whose broker is killed", cell="spout")
@pytest.mark.parametrize("seed", several(1))
def test_each_message_is_emitted_once_and_once_more_for_each_failure(kafka, topic, spout, seed):
    """Processes and the broker are killed, connections cut, partitions added; commits decide."""
    kafka.make_topic(topic, 2)
    life = spout(kafka.proxied)
    produced, emitted, failed = {}, [], []
    with generator(seed) as rng:
        for step in range(40):
            partition = rng.randrange(2 if step < 20 else 3)
            if step == 20:
                kafka.add_partitions(topic, 3)
            at = produced.get(partition, 0)
            produced[partition] = at + rng.randrange(200)
            kafka.produce(topic, numbers(at, produced[partition]), partition=partition)
            match rng.randrange(8):
                case 0:
                    life.kill()
                case 1:
                    kafka.proxy.cut()
                case 2 if rng.random() < 0.4:
                    kafka.kill()
                    life.turn()
                    kafka.start()
            life.turn(rng.randrange(300))
            if rng.random() < 0.6:
                emitted += [msg_id for _, _, msg_id in life.commit()]
                ended = rng.sample(life.pending, len(life.pending) // 2)
                unlucky = ended[: len(ended) // 5]
                life.end(ended[len(unlucky) :])
                life.end(unlucky, "no")
                emitted += [msg_id for _, _, msg_id in life.commit()]
                failed += unlucky
    wanted = [(p, offset) for p, count in produced.items() for offset in range(count)] + failed
    life.until(lambda: len(emitted) + len(life.emitted) >= len(wanted), "all messages")
    emitted += [msg_id for _, _, msg_id in life.commit()]
    assert sorted(emitted) == sorted(wanted)
    assert not [report for report in life.reports if "is away" not in report]


def test_partitions_that_are_added_are_read_from_their_first_message(
    kafka, topic, spout, monkeypatch
):
    asked, read = [], []

    def ask(brokers, consumer, options, partitions):
        asked.extend(partitions)
        read.extend(consumer.assignment())
        return first_positions(brokers, consumer, options, partitions)

    monkeypatch.setattr("fulmen.connectors.kafka.spout.first_positions", ask)
    kafka.make_topic(topic)
    life = spout(start="latest")
    life.until(lambda: life.spout.positions, "a position")
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, numbers(0, 3), partition=1)
    life.until_emitted(3)
    assert values(life.emitted) == ["0", "1", "2"]
    assert (asked, read) == ([0, 1], [])  # else each answer would wait for the end of a fetch


def test_failed_messages_that_are_missing_between_others_or_at_the_end_are_told(
    kafka, topic, spout
):
    kafka.make_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"0")
    producer.commit_transaction()
    life = spout()
    life.until(lambda: life.spout.positions == {0: 2}, "the mark of the transaction, at 1")
    kafka.produce(topic, numbers(2, 4))
    life.until_emitted(3)
    life.commit()
    for offset in (0, 1, 3, 4):  # the partition ends before 4
        life.spout.state[0, offset] = True
    life.until(lambda: not life.spout.state, "an end of all that had failed")
    life.until_emitted(4)
    assert values(life.emitted) == ["0", "3"]
    assert [at for _, _, at in on_errors(life.emitted)] == [f"{topic}[0]@1", f"{topic}[0]@4"]


def test_what_retention_deleted_is_reported_and_told(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    life = spout()
    life.until_emitted(10)
    life.commit()
    life.end([(0, 2), (0, 8)], "no")
    life.commit()
    life.kill()
    kafka.produce(topic, numbers(10, 20))
    kafka.delete_before(topic, 0, 5)
    life.until_emitted(12)
    assert sorted(values(life.emitted), key=int) == ["8", *map(str, range(10, 20))]
    gone = f"message {topic}[0]@2 failed and can't be emitted again: it is in the topic no more"
    assert on_errors(life.emitted) == [[None, gone, f"{topic}[0]@2"]]
    life.commit()
    kafka.produce(topic, numbers(20, 40))
    kafka.delete_before(topic, 0, 30)
    life.kill()
    life.until_emitted(11)
    assert values(life.emitted) == [str(n) for n in range(30, 40)]
    ((_, reason, position),) = on_errors(life.emitted)
    assert reason.startswith("10 messages of partition 0 were deleted before they were read, from")
    assert position == f"{topic}[0]@20"
    assert reason in life.reports


def test_a_topic_that_is_made_again_is_read_from_its_first_message(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    life = spout()
    life.until_emitted(10)
    life.commit()
    life.end([(0, 4)], "no")
    life.commit()
    kafka.delete_topic(topic)
    life.until(lambda: life.reports, "a report")
    assert f"there is no topic {topic!r}" in life.reports[0]
    assert life.outages
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(100, 130))
    life.until(lambda: "129" in values(life.emitted), "the last message")
    assert values(life.emitted)[-30:] == [str(n) for n in range(100, 130)]
    ((_, reason, _),) = on_errors(life.emitted)
    assert f"topic {topic!r} was deleted and made again" in reason
    assert "1 that had failed can't be emitted again" in reason
    life.commit()
    life.end([(0, 5_000)], "it was in the old topic")
    assert dict(life.spout.state) == {}


def test_a_broker_that_is_away_is_reported_once_and_waited_for(kafka, topic, spout):
    kafka.make_topic(topic)
    life = spout()
    life.until(lambda: life.spout.positions, "a position")
    kafka.kill()
    life.until(lambda: life.reports, "a report")
    for _ in range(50):
        life.turn()
        time.sleep(0.01)
    assert len(life.reports) == len(life.outages) == 1
    kafka.start()
    kafka.produce(topic, numbers(0, 3))
    life.until_emitted(3)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"bootstrap.servers": "127.0.0.1:1"}, "Kafka at 127.0.0.1:1 is away: .*refused"),
        ({"bootstrap.servers": "nowhere.invalid:1"}, "there is no machine of that name"),
        ({"topic": "absent"}, "there is no topic 'absent': create it, or mend `topic`"),
    ],
    ids=["port", "host", "topic"],
)
def test_what_is_wrong_is_said_in_one_line(kafka, topic, spout, changes, text):
    kafka.make_topic(topic)
    with pytest.raises(ServiceUnavailable, match=text):
        spout(**changes)


def test_a_wrong_password_is_said_and_not_shown(kafka, topic, spout):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 2))
    with pytest.raises(ServiceUnavailable, match="it does not let us in") as raised:
        spout(kafka.secured, **LOGIN | {"sasl.password": "s3cret-wrong"})
    assert "s3cret" not in str(raised.value)
    life = spout(kafka.secured, **LOGIN)
    life.until_emitted(2)
    assert "s3cret" not in repr(life.options)


def test_a_setting_that_there_is_not_is_a_mistake(kafka, topic, spout):
    kafka.make_topic(topic)
    with pytest.raises(ValueError, match=r'No such configuration property: "fetch\.min"'):
        spout(properties={"fetch.min": 1})
