"""A topology that serves HTTP, in a process of its own: `http_life.py PORT FOLDER`."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fulmen import TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.connectors.http import HttpSpout
from fulmen.connectors.sqlite import SqliteSink
from support.connectors.served_topologies import Served

FIELDS = {"type": "json", "fields": {"id": "int64"}, "required": ["id"]}


def topology(port, folder):
    builder = TopologyBuilder()
    builder.set_spout("hooks", HttpSpout).set_config({"port": port, "format": FIELDS})
    table = {"path": f"{folder}/rows.db", "table": "rows", "create": {"id": "INTEGER"}}
    bolt = builder.set_bolt("table", SqliteSink).set_config({**table, "guarantee": "exactly-once"})
    bolt.shuffle_grouping("hooks")
    return builder


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in all threads
    life = Served(topology(int(sys.argv[1]), sys.argv[2]), Store.open(f"{sys.argv[2]}/checkpoint"))
    signal.sigwait({signal.SIGTERM})
    life.end(drain=True)
