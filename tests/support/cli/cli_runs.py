"""A topology that counts letters, written to a folder, for runs of `fulmen run`."""

import yaml

DOCUMENT = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: letters}
spec:
  code: {folder: code}
  spouts:
    - {name: letters, class: letters.Letters}
"""
"""Of a project whose code is in a folder."""

CODE = '''
import os
import signal
import time

from fulmen import BasicBolt, Spout


class Letters(Spout):
    """Each task emits so many letters in turn, and again what has failed."""

    outputs = ["letter"]

    def __init__(self):
        self.count = 0
        self.failed = []

    def open(self, conf, context, collector):
        self.conf = conf
        self.index = context.task_index
        self.collector = collector
        if "open_fails" in conf:
            raise LookupError(conf["open_fails"])

    def next_tuple(self):
        if self.failed:
            number = self.failed.pop()
        elif self.count < self.conf.get("count", 1000):
            number = self.count
            self.count += 1
            self.signal()
        else:
            return
        self.collector.emit(["abcde"[number % 5]], msg_id=number)

    def signal(self):
        """The first task sends this process as many signals as `signals` says."""
        for turn in range(self.conf.get("signals", 0)):
            if self.index == 0 and self.count == 400 + turn:
                os.kill(os.getpid(), signal.Signals[self.conf.get("signal", "SIGINT")])

    def fail(self, msg_id, reason):
        self.failed.append(msg_id)

    def is_exhausted(self):
        return self.count >= self.conf.get("count", 1000) and not self.failed


class Count(BasicBolt):
    def __init__(self):
        self.seen = 0

    def prepare(self, conf, context):
        self.conf = conf

    def execute(self, tup, collector):
        self.seen += 1
        if self.seen == self.conf.get("raise_at"):
            raise ValueError("not this one")
        if self.seen == self.conf.get("exit_at"):
            raise SystemExit(3)
        if self.seen == self.conf.get("hang_at"):
            with open(self.conf["hangs"], "w"):
                time.sleep(3600)
        letter = tup["letter"]
        self.state[letter] = self.state.get(letter, 0) + 1
'''


def write_letters(folder, config=None, **spec):
    """Write letters.yaml and letters.py.

    Args:
        folder: Where.
        config: Of all components.
        spec: Further fields of the spec.
    """
    (folder / "letters.py").write_text(CODE)
    grouping = {"type": "fields", "fields": ["letter"]}
    document = {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "letters"},
        "spec": {
            "workers": 2,
            "code": {"folder": "."},
            "config": config or {},
            "spouts": [{"name": "letters", "class": "letters.Letters", "parallelism": 2}],
            "bolts": [
                {
                    "name": "count",
                    "class": "letters.Count",
                    "parallelism": 2,
                    "inputs": [{"from": "letters", "grouping": grouping}],
                }
            ],
            **spec,
        },
    }
    (folder / "letters.yaml").write_text(yaml.safe_dump(document))
    return "letters.yaml"
