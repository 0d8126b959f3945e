"""What is known of types stays known behind components that pass fields on."""

import pytest

from fulmen import Stream
from fulmen.connectors.files import FileLookup
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams, agg, tumbling
from fulmen.testing import ListSpout

KINDS = {"user": "string", "n": "int64", "at": "timestamp", "euros": "decimal"}
AGGREGATES = {
    "least": agg.min("n"), "best": agg.max_by("euros", "n"), "newest": agg.last("at"),
    "two": agg.max_by("euros", "n", 2), "all": agg.list("n"), "mean": agg.mean("n"),
    "big": "max(euros) filter (where n > 3)",
}  # fmt: skip
OF_AGGREGATES = {
    "user": "string", "least": "int64", "best": "decimal", "newest": "timestamp",
    "two": "list(decimal)", "all": "list(int64)", "mean": "float64", "big": "decimal",
}  # fmt: skip
WINDOW = {"window_start": "timestamp", "window_end": "timestamp"}


def both():
    shop = Streams("types")
    other = {"user": "string", "n": "float64", "at": "timestamp"}
    return [
        shop.source(name, ListSpout((), streams={"default": Stream(tuple(of), types=of)}),
                    event_time="at")
        for name, of in (("rows", KINDS), ("others", other))
    ]  # fmt: skip


CASES = {
    "window": (
        lambda s, t: s.key_by("user").window(tumbling("1h")).aggregate(**AGGREGATES),
        {**OF_AGGREGATES, **WINDOW},
    ),
    "running": (lambda s, t: s.key_by("user").aggregate(**AGGREGATES), OF_AGGREGATES),
    "deduplicate": (lambda s, t: s.deduplicate("user", within="1h"), KINDS),
    "reduce": (lambda s, t: s.key_by("user").reduce(max), KINDS),
    "update_state": (
        lambda s, t: s.key_by("user").update_state(lambda kept, row: 1),
        {"user": "string", "value": ""},
    ),
    "join": (
        lambda s, t: s.join(t, "user", within="1h"),
        {**KINDS, "n_right": "float64", "at_right": "timestamp"},
    ),
    "join of windows": (
        lambda s, t: s.join(t, "user", window=tumbling("1h")),
        {**KINDS, "n_right": "float64", "at_right": "timestamp", **WINDOW},
    ),
    "join as of": (
        lambda s, t: s.join_as_of(t, "user"),
        {**KINDS, "n_right": "float64", "at_right": "timestamp"},
    ),
    "lookup in": (
        lambda s, t: s.lookup_in(
            FileLookup, "user", path="x.csv", add=["city"],
            format={"type": "csv", "fields": ["user", "city"]},
        ),
        {**KINDS, "city": "string"},
    ),
    "merged": (
        lambda s, t: s.select("user", "n").merge(t.select("user", "n")).key_by("user")
        .aggregate(least=agg.min("n")),
        {"user": "string", "least": ""},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_types_stay_known(kind):
    call, kinds = CASES[kind]
    assert call(*both()).fields == kinds


def test_a_wrong_type_behind_a_window_is_found_with_its_line():
    rows, _ = both()
    counts = rows.key_by("user").window(tumbling("1h")).count()
    with pytest.raises(
        ValidationFailed, match=r"test_passed_types.py:\d+: with_fields x 'user \+ 1'"
    ):
        list(counts.with_fields(x="user + 1").fields)


def test_options_with_mistakes_are_told_by_who_asks_for_fields():
    rows, _ = both()
    found = rows.lookup_in(FileLookup, "user", path="x.csv", colums=["city"])
    with pytest.raises(ValidationFailed, match=r"test_passed_types.py:\d+: .*'colums'"):
        list(found.fields)
    assert "'colums'" in repr(found)
