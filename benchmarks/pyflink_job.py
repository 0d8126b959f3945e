"""Counts keys in PyFlink: run by `benchmarks.pyflink_state` with a Python that has it."""

from __future__ import annotations

import argparse
import json
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor

FAR = 7_368_787


class Count(KeyedProcessFunction):
    """One more of each key."""

    def open(self, runtime_context: Any) -> None:
        """The state of a key is its count."""
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: Any) -> list[str]:
        """One more."""
        self.count.update((self.count.value() or 0) + 1)
        return []


def main() -> None:
    """Run until all events are counted and the last checkpoint is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--mode", default="process")
    given = parser.parse_args()
    keys = given.keys
    settings = {
        "parallelism.default": "1",
        "taskmanager.numberOfTaskSlots": "1",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.dir": f"file://{given.folder}/checkpoints",
        "python.execution-mode": given.mode,
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.pythonpath": sysconfig.get_path("purelib"),  # threads know no environment
        "restart-strategy.type": "none",
    }
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    numbers = environment.from_source(
        NumberSequenceSource(0, given.events - 1), WatermarkStrategy.no_watermarks(), "numbers"
    )
    named = numbers.map(lambda n: f"customer-{n * FAR % keys:09d}", Types.STRING())
    named.key_by(lambda key: key, Types.STRING()).process(Count(), Types.STRING()).print()
    began = time.monotonic()
    environment.execute("count")
    print(json.dumps({"seconds": round(time.monotonic() - began, 1)}), flush=True)
    sys.stdin.read()  # until its CPU was looked at, as Java's is only while it lives


if __name__ == "__main__":
    main()
