"""Topologies in short: `topology({"a": 2}, {"b": ((2, 4), {"a": "shuffle"})})`."""

from fulmen.topology.reading.field_problems import parse


def topology(spouts, bolts, **spec):
    """A topology whose classes don't exist.

    Args:
        spouts: For each spout its parallelism, or that and the number of tasks.
        bolts: For each bolt the same, and its inputs: the grouping for each source. A source may
            have a stream: `a:errors`.
        spec: Other fields of the spec, as in YAML.
    """
    return parse(
        {
            "apiVersion": "fulmen.dev/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "test"},
            "spec": {
                **spec,
                "spouts": [_component(name, size) for name, size in spouts.items()],
                "bolts": [
                    {**_component(name, size), "inputs": [_input(*item) for item in inputs.items()]}
                    for name, (size, inputs) in bolts.items()
                ],
            },
        }
    )


def _component(name, size):
    parallelism, tasks = size if isinstance(size, tuple) else (size, None)
    return {"name": name, "class": "m.C", "parallelism": parallelism, "numTasks": tasks}


def _input(source, grouping):
    name, _, stream = source.partition(":")
    return {"from": name, "stream": stream or "default", "grouping": {"type": grouping}}


def blue_green_yellow(**spec):
    """The example of Storm's documentation."""
    return topology(
        {"blue": 2},
        {"green": ((2, 4), {"blue": "shuffle"}), "yellow": (6, {"green": "shuffle"})},
        **{"workers": 2, **spec},
    )
