"""The example from RabbitMQ to Redis, with both servers: each payment once, whatever is killed."""

import json
import random
from collections import Counter

import pika
import pytest

from support.lives.example_lives import ExampleLife
from support.lives.processes import DRIVER, PYTHON
from support.suite.seeds import FIRST

ACCOUNTS = ["ann", "bob", "eve"]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


class Run(ExampleLife):
    """The example in a folder, and the servers."""

    def __init__(self, folder, rabbit, redis):
        variables = {"RABBITMQ_URL": rabbit.url, "REDIS_URL": redis.url}
        super().__init__("rabbit-to-redis", folder, variables)
        self.rabbit, self.redis, self.published = rabbit, redis, []

    def publish(self, rng, count):
        """Some messages twice, as a publisher does that has not heard of the first one."""
        with self.rabbit.channel() as channel:
            channel.queue_declare("payments", durable=True)
            channel.confirm_delivery()
            for _ in range(count):
                number = len(self.published)
                body = {"account": rng.choice(ACCOUNTS), "amount": rng.randrange(100)}
                properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
                for _ in range(rng.choice([1, 1, 1, 2])):
                    channel.basic_publish("", "payments", json.dumps(body).encode(), properties)
                self.published.append({**body, "message_id": str(number)})

    def booked(self):
        """Each payment, and how often it is there."""
        with self.redis.client() as client:
            rows = [row for a in ACCOUNTS for row in client.lrange(f"book:{a}", 0, -1)]
        found = Counter(rows)
        assert set(found.values()) <= {1}, found.most_common(5)
        return [json.loads(row) for row in rows]

    def wait_for_payments(self, count):
        self.wait_for(lambda: len(self.booked()) >= count, f"{count} payments")


@pytest.mark.matrix(share=1 / 4, name="examples that are killed", cell="rabbit-to-redis")
def test_each_payment_is_booked_once_whatever_is_killed(tmp_path, rabbit_server, redis_server):
    rng = random.Random(FIRST)
    run = Run(tmp_path, rabbit_server, redis_server)
    run.publish(rng, 200)
    with run.running():
        run.wait_for_payments(100)
        for harm in (
            lambda: run.kill(PYTHON, rng),
            lambda: run.kill(DRIVER, rng),
            lambda: (rabbit_server.kill(), rabbit_server.start()),
            lambda: (redis_server.kill(), redis_server.start()),
        ):
            run.publish(rng, 300)
            harm()
            run.wait_for_payments(len(run.published) - rng.randrange(200))
        run.publish(rng, 50)
        run.wait_for_payments(len(run.published))
        run.end()
    key = lambda row: int(row["message_id"])  # noqa: E731
    assert sorted(run.booked(), key=key) == run.published
    with rabbit_server.channel() as channel:
        assert channel.queue_declare("payments", passive=True).method.message_count == 0
