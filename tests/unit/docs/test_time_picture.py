"""The picture at the top of guide/time.md is what comes of it when it is run."""

from datetime import UTC, datetime
from pathlib import Path

from fulmen import BasicBolt, TopologyBuilder
from fulmen.testing import PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import Aggregate

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "time.md"
TIMES = ("12:01", "12:04", "12:03", "12:09", "12:08", "12:12", "12:11", "12:02")


class Seen(BasicBolt):
    """Emits the watermark that each tuple sees."""

    outputs = ("watermark",)

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        collector.emit([self.context.batch.watermark])


def minutes(milliseconds):
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%H:%M}"


def pictured():
    """The times, what each tuple sees, and which of them the window does not have."""
    items = [one for at in TIMES for one in ([at, f"2024-05-01T{at}:00Z"], PAUSE)]
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(items, fields=["id", "at"]))
    source.set_event_time("at", lag="2m")
    builder.set_bolt("seen", Seen).global_grouping("source")
    window = {"type": "tumbling", "size": "10m"}
    builder.set_bolt("windows", Aggregate).global_grouping("source").set_config(
        {"window": window, "aggregates": {"ids": "list(id)"}}
    )
    for name, source, stream in (
        ("watermarks", "seen", "default"),
        ("found", "windows", "default"),
        ("late", "windows", "late"),
    ):
        builder.set_bolt(name, CollectBolt).global_grouping(source, stream)
    result = run(builder)
    marks = ["-" if at is None else minutes(at) for (at,) in result.collected("watermarks")]
    start, end, ids = result.collected("found")[0]
    late = [values["id"] for values, *_ in result.collected("late")]
    assert sorted([*ids, *late]) == sorted(at for at in TIMES if at < f"{end:%H:%M}")
    rows = {"its time": TIMES, "watermark": marks}
    lines = [
        f"{name:<14}{'  '.join(f'{one:<5}' for one in row)}".rstrip() for name, row in rows.items()
    ]
    place = 14 + 7 * TIMES.index(late[0])
    return [
        *lines,
        f"late: the window from {start:%H:%M} to {end:%H:%M} has ended".rjust(place + 5),
    ]


def test_the_picture_of_the_watermark_is_what_a_run_of_it_gives():
    picture = PAGE.read_text().split("```text\ncomes", 1)[1].split("\n```", 1)[0].splitlines()
    assert picture[1:] == pictured()
