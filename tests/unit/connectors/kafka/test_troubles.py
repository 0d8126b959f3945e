"""What is reported of brokers and topics, and that a run does not take it for an end."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from fulmen.api import ServiceUnavailable
from fulmen.connectors.kafka import KafkaSpoutOptions
from fulmen.connectors.kafka.reading.troubles import BrokerTroubles

UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
NOT_ALLOWED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Asked:
    """A topic about which the brokers have answered with an error."""

    def __init__(self, error):
        self._error = error

    def news(self):
        raise KafkaException(self._error)


@pytest.fixture
def reported():
    return []


@pytest.fixture
def troubles(reported):
    config = {"bootstrap.servers": "broker:9092", "topic": "orders"}
    return BrokerTroubles(KafkaSpoutOptions.model_validate(config).brokers(), reported.append)


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        pytest.param(lambda t: t.away(), "is away", id="brokers"),
        pytest.param(lambda t: t.of_partition(UNKNOWN, "orders"), "no topic 'orders'", id="topic"),
        pytest.param(
            lambda t: t.of_partition(NOT_ALLOWED, "orders"), "'orders', can't", id="right"
        ),
        pytest.param(lambda t: t.news_of(Asked(NOT_ALLOWED)), "can't be read", id="metadata"),
    ],
)
def test_what_keeps_messages_from_being_read_means_that_the_source_is_away(
    troubles, reported, happens, said
):
    for _ in range(3):
        happens(troubles)
    [told] = reported  # once in a while
    assert isinstance(told, ServiceUnavailable)
    assert "Kafka at broker:9092" in str(told)
    assert said in str(told)
