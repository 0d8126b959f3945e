"""A topic of a real broker as the source of transactions: each message is in exactly one."""

import datetime
import re
import time
import zlib
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from fulmen import FailedException
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.connectors.kafka import OpaqueTransactionalKafkaSpout, TransactionalKafkaSpout
from fulmen.connectors.kafka.reading.parts import MessagesGone
from support.runs.spark_runs import wait_until
from support.suite.seeds import generator, several
from support.transactions.lives import TransactionalLife

KINDS = {"transactional": TransactionalKafkaSpout, "opaque": OpaqueTransactionalKafkaSpout}
both = pytest.mark.parametrize("kind", KINDS)
either = pytest.mark.parametrize("kind", ["transactional"])
"""For what both have of one class: they differ in what another attempt has."""


@pytest.fixture
def topic(request):
    """The name of this test's own topic."""
    return f"transactional-{zlib.crc32(request.node.name.encode()):x}"


@pytest.fixture
def life(kafka, topic):
    """Makes tasks of a spout for this test's topic."""
    lives = []

    def made(kind, address=kafka.address, task=0, tasks=1, **config):
        given = {"bootstrap.servers": address, "topic": topic, "refreshSeconds": 0.2}
        lives.append(TransactionalLife(KINDS[kind], given | config, task, tasks))
        return lives[-1]

    yield made
    for one in lives:
        one.close()


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def values(emitted):
    return [row[0] for stream, row in emitted if stream == "default"]


def on_errors(emitted):
    return [row for stream, row in emitted if stream == "errors"]


def texts(first, end):
    return [str(n) for n in range(first, end)]


# ---- what is emitted ----------------------------------------------------------------------------


@either
def test_partitions_are_divided_and_a_transaction_has_at_most_so_many_of_each(
    kafka, topic, life, kind
):
    kafka.make_topic(topic, 3)
    for partition in range(3):
        kafka.produce(topic, numbers(10 * partition, 10 * partition + 5), partition=partition)
    even, odd = (life(kind, task=task, tasks=2, maxMessages=2) for task in (0, 1))
    assert sorted(values(even.attempt_with(4))) == ["0", "1", "20", "21"]
    even.commit()
    assert sorted(values(even.until_emitted(6)), key=int) == ["2", "3", "4", "22", "23", "24"]
    assert values(odd.until_emitted(5)) == texts(10, 15)


@either
def test_where_a_partition_begins_is_known_while_another_one_waits_for_messages(
    kafka, topic, life, kind
):
    kafka.make_topic(topic, 2)
    one = life(kind, properties={"fetch.wait.max.ms": 15_000})
    one.attempt()
    assert [ends[1].start for ends in one.ends.values()] == [0, 0]
    assert one.reports == []


@either
def test_tuples_begin_with_the_attempt_also_those_that_cannot_be_read(kafka, topic, life, kind):
    kafka.make_topic(topic)
    kafka.produce(topic, [b'{"a": 1}', b"oops", None], key="k")
    one = life(kind, format={"type": "json", "fields": ["a"]}, include=["key", "offset"])
    streams = KINDS[kind]().outputs_for(one.options)
    assert {name: stream.fields for name, stream in streams.items()} == {
        "default": ("tx", "a", "key", "offset"),
        "errors": ("tx", "data", "reason", "position"),
    }
    emitted = one.until_emitted(3)
    assert [row for stream, row in emitted if stream == "default"] == [[1, "k", 0], [None, "k", 2]]
    ((data, reason, position),) = on_errors(emitted)
    assert (data, position) == (b"oops", f"{topic}[0]@1")
    assert reason.startswith("it is not JSON: ")


@either
def test_a_partition_with_much_does_not_fill_the_memory_nor_stop_others(kafka, topic, life, kind):
    kafka.make_topic(topic, 2)
    kafka.produce(topic, numbers(0, 30_000))
    kafka.produce(topic, numbers(0, 300), partition=1)
    one = life(kind, maxMessages=100, include=["partition"])
    counts, most = Counter(), 0

    def is_complete(emitted):
        nonlocal most
        counts.update(row[1] for _, row in emitted)
        emitted.clear()
        queues = one.emitter._parts._reader._queues.values()
        most = max(most, *(len(queue.messages) for queue in queues), 0)
        return counts == {0: 30_000, 1: 300}

    one.until(is_complete, "all messages")
    assert most < 5_000


# ---- where it starts ----------------------------------------------------------------------------


@either
def test_it_starts_at_the_end_and_reads_partitions_that_are_added_from_their_first_message(
    kafka, topic, life, kind
):
    """Also a task that had no partition at first, and one whose process is another one."""
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    first, second = (life(kind, task=task, tasks=2, start="latest") for task in (0, 1))
    first.until(lambda _: first.ends[0][first.committed] is not None if first.ends else False)
    assert second.whole() == []
    second.kill()
    kafka.add_partitions(topic, 4)
    kafka.produce(topic, numbers(5, 7))
    for partition in (1, 2, 3):
        kafka.produce(topic, numbers(10 * partition, 10 * partition + 3), partition=partition)
    assert sorted(values(first.until_emitted(5))) == ["20", "21", "22", "5", "6"]
    assert sorted(values(second.until_emitted(6))) == ["10", "11", "12", "30", "31", "32"]


@either
def test_it_starts_at_a_time(kafka, topic, life, kind):
    kafka.make_topic(topic)
    for n in range(5):
        kafka.produce(topic, [b"%d" % n], timestamp=1_700_000_000_000 + n * 1000)
    at = datetime.datetime.fromtimestamp(1_700_000_002, datetime.UTC).isoformat()
    one = life(kind, start="timestamp", startTimestamp=at)
    assert values(one.until_emitted(3)) == ["2", "3", "4"]


@either
def test_it_starts_where_a_group_was_and_tells_the_group(kafka, topic, life, kind):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    group = f"group-{topic}"
    reader = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    reader.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    one = life(kind, start="group", **{"group.id": group})
    assert values(one.until_emitted(2)) == ["3", "4"]

    def told(_):
        return [part.offset for part in reader.committed([TopicPartition(topic, 0)], 10)] == [5]

    one.until(told, "the group's offset")
    reader.close()


# ---- attempts -----------------------------------------------------------------------------------


def with_gaps(kafka, topic):
    """A topic that has messages of transactions that were committed and taken back."""
    kafka.make_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions()
    for first in range(0, 40, 4):
        producer.begin_transaction()
        for value in numbers(first, first + 4):
            producer.produce(topic, value)
        producer.flush()
        if first % 8:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    return [str(n) for n in range(40) if n // 4 % 2 == 0]


def test_an_attempt_has_the_same_messages_whatever_came_in_between(kafka, topic, life):
    wanted = with_gaps(kafka, topic)
    one = life("transactional", maxMessages=7)
    first = one.attempt_with(7)
    assert values(first) == wanted[:7]
    second = one.attempt(2)
    kafka.produce(topic, numbers(100, 110))
    for _ in range(2):
        assert one.attempt(1) == first
        assert one.attempt(2) == second
        one.kill()
    one.commit()
    one.commit()
    rest = len(wanted) - len(first) - len(second) + 10
    assert values(first + second + one.until_emitted(rest)) == [*wanted, *texts(100, 110)]


def test_an_attempt_may_have_other_messages_if_the_spout_is_opaque(kafka, topic, life):
    wanted = with_gaps(kafka, topic)
    one = life("opaque")
    first = one.attempt_with(20)
    kafka.produce(topic, numbers(100, 110))
    again = one.attempt_with(30)
    assert values(first) == wanted
    assert values(again) == [*wanted, *texts(100, 110)]


def compacted(kafka, topic):
    """Ten messages with one key, of which the last one will be left."""
    kafka.make_topic(
        topic,
        cleanup_policy="compact",
        segment_ms="50",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
    )
    kafka.produce(topic, numbers(0, 10), key="one")


def compact(kafka, topic):
    """Have the broker compact it."""

    def is_compacted():
        kafka.produce(topic, [b"last"], key="last")  # the newest segment is never compacted
        left = {message.value() for message in kafka.read(topic)}
        return left.isdisjoint(numbers(0, 9))

    wait_until(is_compacted, "compaction")


@both
def test_what_compaction_has_removed_is_passed_over(kafka, topic, life, kind):
    compacted(kafka, topic)
    compact(kafka, topic)
    one = life(kind, maxMessages=1)
    assert values(one.until_emitted(2)) == ["9", "last"]


def test_compaction_between_two_attempts_is_noticed(kafka, topic, life):
    compacted(kafka, topic)
    one = life("transactional")
    one.attempt_with(10)
    compact(kafka, topic)
    with pytest.raises(MessagesGone) as raised:
        one.attempt(1)
    text = str(raised.value)
    assert text.startswith(f"this transaction has 10 messages from {topic}[0]@0 on, and can't be")
    assert "the topic has 9 of them no more" in text


def test_an_opaque_spout_goes_on_with_what_compaction_has_left(kafka, topic, life):
    compacted(kafka, topic)
    one = life("opaque")
    one.attempt_with(10)
    compact(kafka, topic)
    one.kill()
    assert values(one.attempt_with(2))[:2] == ["9", "last"]


# ---- what goes wrong ----------------------------------------------------------------------------


def test_an_attempt_whose_messages_are_deleted_is_refused(kafka, topic, life):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    one = life("transactional")
    one.attempt_with(10)
    kafka.delete_before(topic, 0, 4)
    for _ in range(2):
        with pytest.raises(MessagesGone, match="the topic has some of them no more") as raised:
            one.attempt(1)
        assert "With `maxReplays` it is given up some time" in str(raised.value)
        one.kill()
    one.commit()
    kafka.produce(topic, numbers(10, 13))
    assert values(one.until_emitted(3)) == texts(10, 13)


def test_an_opaque_attempt_goes_on_behind_messages_that_are_deleted(kafka, topic, life):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 2))
    one = life("opaque")
    one.until_emitted(2)
    kafka.produce(topic, numbers(2, 12))
    one.attempt_with(10)
    kafka.delete_before(topic, 0, 6)
    one.kill()
    emitted = one.until_emitted(7)
    assert values(emitted) == texts(6, 12)
    ((data, reason, position),) = on_errors(emitted)
    assert (data, position) == (None, f"{topic}[0]@2")
    assert reason.startswith("4 messages of partition 0 were deleted before they were read, from")
    assert reason in one.reports


def test_what_is_said_of_deleted_messages_is_part_of_the_transaction(kafka, topic, life):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    one = life("transactional", maxMessages=5)
    one.attempt_with(5)
    one.commit()
    one.kill()
    kafka.delete_before(topic, 0, 8)
    told = one.attempt_with(1)
    ((_, reason, position),) = on_errors(told)
    assert reason.startswith("3 messages of partition 0 were deleted before they were read, from")
    assert position == f"{topic}[0]@5"
    one.kill()
    assert one.attempt() == told
    one.commit()
    assert values(one.until_emitted(2)) == ["8", "9"]


@either
def test_a_topic_that_is_made_again_is_read_from_its_first_message(kafka, topic, life, kind):
    kafka.make_topic(topic, 2)
    kafka.produce(topic, numbers(0, 10))
    one = life(kind, start="latest")
    one.until(lambda _: bool(one.ends))
    kafka.produce(topic, numbers(10, 12))
    one.until_emitted(2)
    kafka.delete_topic(topic)

    def is_away(_):
        try:
            one.coordinator.num_partitions()
        except ServiceUnavailable as error:
            return f"there is no topic {topic!r}" in str(error)
        except FailedException:
            return True  # it was away when it was asked last
        return False

    one.until(is_away, "its absence")
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(100, 130))
    wait_until(lambda: not is_away(()), "its presence")
    emitted = one.until(lambda emitted: len(values(emitted)) >= 30, "all messages")
    # What lies behind the old position may be read before the brokers have told of the new topic
    assert sorted(set(values(emitted))) == texts(100, 130)
    reasons = [reason for _, reason, _ in on_errors(emitted)]
    assert f"topic {topic!r} was deleted and made again" in reasons[0]
    # … and then is not among what is gone.
    [offset] = re.findall(r"in partition 0 from offset (\d+) on, is gone", reasons[0])
    assert 12 <= int(offset) <= 30


def test_a_part_of_a_topic_that_was_made_again_is_refused(kafka, topic, life):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    one = life("transactional")
    one.attempt_with(10)
    kafka.delete_topic(topic)
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 10))
    one.kill()
    with pytest.raises(MessagesGone, match="the topic was deleted and made again"):
        one.attempt()


@pytest.mark.matrix(share=1 / 2)
@both
def test_while_the_broker_is_away_transactions_are_empty_and_it_is_reported_once(
    kafka, topic, life, kind
):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    one = life(kind, refreshSeconds=3600)
    first = one.attempt_with(5)
    one.commit()
    kafka.kill()
    try:
        one.until(lambda _: one.reports, "a report")
        for _ in range(20):
            assert one.whole() == []
            time.sleep(0.01)
        assert len(one.reports) == 1
        assert "is away" in one.reports[0]
    finally:
        kafka.start()
    kafka.produce(topic, numbers(5, 8))
    assert values(first + one.until_emitted(3)) == texts(0, 8)


def test_while_the_broker_is_away_an_attempt_fails_that_must_have_its_messages(kafka, topic, life):
    kafka.make_topic(topic)
    kafka.produce(topic, numbers(0, 5))
    one = life("transactional", refreshSeconds=3600)
    first = one.attempt_with(5)
    kafka.kill()
    try:
        with pytest.raises(ServiceUnavailable, match="is away"):
            one.attempt()
    finally:
        kafka.start()
    assert one.attempt() == first


def test_a_topic_that_is_not_there_is_said_in_one_line(life):
    with pytest.raises(ServiceUnavailable, match="there is no topic 'absent': create it, or mend"):
        life("opaque", topic="absent")


@pytest.mark.matrix(share=1 / 2, name="connectors whose broker is killed", cell="transactions")
@pytest.mark.timeout(300)
@both
@pytest.mark.parametrize("seed", several(1))
def test_each_message_is_in_one_transaction_whatever_is_killed(kafka, topic, life, kind, seed):
    """Processes and the broker are killed, connections cut, partitions added, attempts fail."""
    kafka.make_topic(topic, 2)
    one = life(kind, kafka.proxied, maxMessages=50, include=["partition", "offset"])
    produced, found, attempts = Counter(), [], {}
    kills = 1  # of the broker, whose start takes as long as all other steps

    def attempt(txid):
        try:
            emitted = one.attempt(txid)
        except (FailedException, ServiceUnavailable):
            return False
        if kind == "transactional":
            assert attempts.setdefault(txid, emitted) == emitted
        else:
            attempts[txid] = emitted
        return True

    with generator(seed) as rng:
        for step in range(60):
            partition = rng.randrange(2 if step < 20 else 3)
            if step == 20:
                kafka.add_partitions(topic, 3)
            at = produced[partition]
            produced[partition] += rng.randrange(100)
            kafka.produce(topic, numbers(at, produced[partition]), partition=partition)
            match rng.randrange(8):
                case 0:
                    one.kill()
                case 1:
                    kafka.proxy.cut()
                case 2 if kills and rng.random() < 0.4:
                    kills -= 1
                    kafka.kill()
                    attempt(one.committed + 1)
                    kafka.start()
            ahead = rng.randrange(1, 4)
            for txid in range(one.committed + 1, one.committed + 1 + ahead):
                if not attempt(txid):
                    break
                if txid == one.committed + 1 and rng.random() < 0.6:
                    one.commit()
                    found += attempts.pop(txid)
            if rng.random() < 0.3:
                one.forget()
                attempts.clear()
    wanted = sorted((p, n) for p, count in produced.items() for n in range(count))

    def is_complete(emitted):
        return len(found) + len(emitted) >= len(wanted)

    while not is_complete([]) and one.committed + 1 in attempts:
        assert attempt(one.committed + 1)
        one.commit()
        found += attempts.pop(one.committed)
    found += one.until(is_complete, "all messages")
    assert sorted((row[1], row[2]) for _, row in found) == wanted
    assert not [report for report in one.reports if "is away" not in report]
