"""The example from RabbitMQ to Redis, with both servers: each payment once, whatever is killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pika
import pytest

from support.examples import EXAMPLES
from support.processes import DRIVER, PYTHON, send, victims
from support.seeds import FIRST
from support.spark_runs import wait_until

SECONDS = 120
ACCOUNTS = ["ann", "bob", "eve"]

pytestmark = pytest.mark.timeout(600)


class Run:
    """The example in a folder, and the servers."""

    def __init__(self, folder, rabbit, redis):
        self.folder, self.rabbit, self.redis = folder, rabbit, redis
        self.process, self.published = None, []

    def start(self):
        fulmen = str(Path(sys.executable).parent / "fulmen")
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [fulmen, "run", "topology.yaml", "--checkpoint", "state"],
                cwd=self.folder,
                env={
                    **os.environ,
                    "RABBITMQ_URL": self.rabbit.url,
                    "REDIS_URL": self.redis.url,
                    "XDG_STATE_HOME": str(self.folder / "home"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def output(self):
        return (self.folder / "log").read_text()

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

    def wait_for(self, count):
        def is_booked():
            if self.process.poll() is not None:
                raise AssertionError(self.output())
            return len(self.booked()) >= count

        wait_until(is_booked, f"{count} payments", SECONDS)

    def kill(self, kind, rng):
        send(rng.choice(sorted(victims(self.process, kind))), signal.SIGKILL)
        if kind == DRIVER:
            self.process.wait()
            self.start()


def test_each_payment_is_booked_once_whatever_is_killed(tmp_path, rabbit_server, redis_server):
    rng = random.Random(FIRST)
    folder = shutil.copytree(EXAMPLES / "rabbit-to-redis", tmp_path / "example")
    run = Run(folder, rabbit_server, redis_server)
    run.publish(rng, 200)
    run.start()
    try:
        run.wait_for(100)
        for harm in (
            lambda: run.kill(PYTHON, rng),
            lambda: run.kill(DRIVER, rng),
            lambda: (rabbit_server.kill(), rabbit_server.start()),
            lambda: (redis_server.kill(), redis_server.start()),
        ):
            run.publish(rng, 300)
            harm()
            run.wait_for(len(run.published) - rng.randrange(200))
        run.publish(rng, 50)
        run.wait_for(len(run.published))
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(SECONDS) == 0, run.output()
    finally:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
            run.process.wait(SECONDS)
    key = lambda row: int(row["message_id"])  # noqa: E731
    assert sorted(run.booked(), key=key) == run.published
    with rabbit_server.channel() as channel:
        assert channel.queue_declare("payments", passive=True).method.message_count == 0
