"""A topology in Python: `fulmen run topology.py`, or `python topology.py` for its YAML."""

from arithmetic import Multiply, Range, Sum

from fulmen import TopologyBuilder

topology = TopologyBuilder(name="arithmetic", message_timeout_seconds=60)
topology.set_spout("numbers", Range(100))  # each task gets a copy of the object
for factor in (2, 3, 5):
    bolt = topology.set_bolt(f"times-{factor}", Multiply(factor), parallelism=2)
    bolt.shuffle_grouping("numbers")
total = topology.set_bolt("total", Sum)
for factor in (2, 3, 5):
    total.global_grouping(f"times-{factor}")

if __name__ == "__main__":
    print(topology.to_yaml())
