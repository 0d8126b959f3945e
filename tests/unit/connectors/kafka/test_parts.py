"""What transactions have of partitions, as far as no broker is needed."""

import pickle

from confluent_kafka import Message

from fulmen.connectors.kafka.reading.partition_reader import FetchedMessages
from fulmen.connectors.kafka.reading.parts import MessagesGone, PartitionPart


def test_what_can_never_be_emitted_again_is_said_with_what_to_do():
    error = MessagesGone(5, "orders[3]@1207", "the topic has 2 of them no more")
    assert str(pickle.loads(pickle.dumps(error))) == (
        "this transaction has 5 messages from orders[3]@1207 on, and can't be emitted again as it"
        " was: the topic has 2 of them no more. With `maxReplays` it is given up some time. If that"
        " may happen again, keep messages for longer, or use an OpaqueTransactionalKafkaSpout with"
        " a store that has the opaque rule"
    )


def test_a_part_is_the_same_in_another_process():
    part = PartitionPart("id", 3, 9, 4, 2)
    assert pickle.loads(pickle.dumps(part)) == part
    assert part.gone is None


def queue(*offsets, start, fetched):
    messages = (Message(topic="orders", partition=0, offset=offset) for offset in offsets)
    made = FetchedMessages(start, fetched)
    made.messages.extend(messages)
    return made


def offsets(messages):
    return [message.offset() for message in messages]


def test_what_is_taken_of_a_queue_ends_before_a_message_that_stays():
    it = queue(3, 4, 9, start=2, fetched=12)
    assert (it.start, it.next) == (2, 3)
    assert offsets(it.take(2)) == [3, 4]
    assert (it.start, it.next) == (5, 9)
    assert offsets(it.take(2, before=9)) == []
    assert offsets(it.take(2, before=10)) == [9]
    assert (it.start, it.next) == (10, 12), "nothing is between them"
