"""Each operator against a plain Python model over the whole input."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypedDict

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, FailedException, Stream
from fulmen.connectors.files import FileLookup
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams, agg, counting, cumulative, session, tumbling
from fulmen.testing import PAUSE, CollectBolt, ListSpout, NotDrained
from support.windows.sql_events import by_sql

START = 1_700_000_000_000
NO_SHRINKING = (Phase.explicit, Phase.generate)  # rows are few as they are
FIELDS = Stream(("user", "n", "at"), types={"user": "string", "n": "int64"})


def source(pipeline, name="rows", **options):
    return pipeline.source(name, ListSpout((), streams={"default": FIELDS}), **options)


def timed(pipeline, name="rows"):
    return source(pipeline, name, event_time={"field": "at", "unit": "ms"}, lag="1h")


def row(n, user="a", second=0):
    return {"user": user, "n": n, "at": START + second * 1000}


@pytest.fixture
def pipeline():
    return Streams("tried")


def collected(pipeline, stream, rows, **more):
    stream.sink("out", CollectBolt)
    return pipeline.test(rows=rows, **more)["out"]


# Steps that may follow each other in any order: what is called, and the same over a plain list.
STEPS = {
    "filter": (
        lambda s: s.filter(lambda r: r.n % 3),
        lambda rows: [r for r in rows if r["n"] % 3],
    ),
    "filter with": (
        lambda s: s.filter(lambda r, least: r["n"] > least, 2),
        lambda rows: [r for r in rows if r["n"] > 2],
    ),
    "where": (
        lambda s: s.where("n % 2 = 0 or user = 'b'"),
        lambda rows: [r for r in rows if r["n"] % 2 == 0 or r["user"] == "b"],
    ),
    "unnest": (
        lambda s: s.select("n", "at", user="unnest(string_split(concat(user, ' x'), ' '))"),
        lambda rows: [r | {"user": user} for r in rows for user in (r["user"], "x")],
    ),
    "with_fields": (
        lambda s: s.with_fields(n=lambda r: r.n + 5),
        lambda rows: [r | {"n": r["n"] + 5} for r in rows],
    ),
    "with_fields text": (
        lambda s: s.with_fields(n="n * 2 + length(user)"),
        lambda rows: [r | {"n": r["n"] * 2 + len(r["user"])} for r in rows],
    ),
    "select": (
        lambda s: s.select("n", "at", user="upper(user)"),
        lambda rows: [{"n": r["n"], "at": r["at"], "user": r["user"].upper()} for r in rows],
    ),
    "map": (
        lambda s: s.map(lambda r: [r.at, r.user * 2, r.n - 1], fields=["at", "user", "n"]),
        lambda rows: [{"at": r["at"], "user": r["user"] * 2, "n": r["n"] - 1} for r in rows],
    ),
    "flat_map": (
        lambda s: s.flat_map(
            lambda r: ({"n": i, "user": r.user, "at": r.at} for i in range(r.n % 3)),
            fields=["user", "n", "at"],
        ),
        lambda rows: [{"user": r["user"], "n": i, "at": r["at"]} for r in rows
                      for i in range(r["n"] % 3)],
    ),
    "peek": (lambda s: s.peek(lambda r: r.n), lambda rows: rows),
    "shuffle": (lambda s: s.shuffle(), lambda rows: rows),
}  # fmt: skip
ROWS = st.lists(
    st.builds(row, st.integers(0, 20), st.sampled_from(["a", "b"]), st.integers(0, 50)), max_size=12
)


@settings(max_examples=8, phases=NO_SHRINKING)
@given(names=st.lists(st.sampled_from([*STEPS]), min_size=1, max_size=6), rows=ROWS)
def test_steps_in_any_order_give_what_plain_python_gives(names, rows):
    pipeline = Streams("drawn")
    stream = source(pipeline)
    expected = rows
    for name in names:
        call, model = STEPS[name]
        stream, expected = call(stream), model(expected)
    assert collected(pipeline, stream, rows) == expected


def test_each_pair_of_steps_gives_what_plain_python_gives():
    rows = [row(n, "ab"[n % 2]) for n in range(9)]
    pipeline = Streams("pairs")
    given_rows = source(pipeline)
    expected = {}
    for first, (call, model) in STEPS.items():
        for second, (other_call, other_model) in STEPS.items():
            name = f"{first}-{second}".replace(" ", "-")
            other_call(call(given_rows)).sink(name, CollectBolt)
            expected[name] = other_model(model(rows))
    outcome = pipeline.test(rows=rows)
    assert {name: outcome[name] for name in expected} == expected


@settings(max_examples=4, phases=NO_SHRINKING)
@given(rows=ROWS)
def test_what_is_kept_by_key_follows_all_rows_of_the_key(rows):
    pipeline = Streams("keyed", workers=2)
    keyed = source(pipeline).key_by("user")
    keyed.aggregate(n=agg.count(), most=agg.max("n"), last=agg.last("n")).sink("agg", CollectBolt)
    keyed.count(parallelism=2).sink("count", CollectBolt)
    keyed.reduce(lambda a, b: a if a.n >= b.n else b).sink("reduce", CollectBolt)
    keyed.update_state(lambda seen, r: [*seen, r.n][-2:], [], fields="last").sink("s", CollectBolt)
    outcome = pipeline.test(rows=rows)
    of_user = defaultdict(list)
    expected = defaultdict(list)
    for r in rows:
        seen = of_user[r["user"]]
        seen.append(r)
        numbers = [one["n"] for one in seen]
        key = {"user": r["user"]}
        best = max(seen, key=lambda one: one["n"])
        expected["agg"].append(key | {"n": len(seen), "most": max(numbers), "last": r["n"]})
        expected["count"].append(key | {"count": len(seen)})
        expected["reduce"].append(key | {"n": best["n"], "at": best["at"]})
        expected["s"].append(key | {"last": numbers[-2:]})
    for name in ("agg", "reduce", "s"):
        assert outcome[name] == expected[name]
    assert sorted(map(repr, outcome["count"])) == sorted(map(repr, expected["count"]))


@settings(max_examples=4, phases=NO_SHRINKING)
@given(rows=ROWS)
def test_windows_have_the_rows_of_their_times(rows):
    pipeline = Streams("windows")
    buys = timed(pipeline).filter(lambda r: r.n > 3).with_fields(twice="n * 2")
    windows = buys.key_by("user").window(tumbling("10s"))
    windows.aggregate(n=agg.count(), sum=agg.sum("twice")).sink("out", CollectBolt)
    expected = defaultdict(list)
    for r in rows:
        if r["n"] > 3:
            expected[r["user"], r["at"] // 10_000].append(2 * r["n"])
    found = {
        (r["user"], int(r["window_start"].timestamp()) // 10): (r["n"], r["sum"])
        for r in pipeline.test(rows=rows)["out"]
    }
    assert found == {key: (len(some), sum(some)) for key, some in expected.items()}


def test_sessions_counts_and_windows_of_windows(pipeline):
    rows = [row(n, second=second) for n, second in enumerate([0, 1, 2, 30, 31, 90])]
    keyed = timed(pipeline).key_by("user")
    keyed.window(session("10s")).count(name="s").sink("visits", CollectBolt)
    keyed.window(counting(2)).aggregate(name="c", n=agg.list("n")).sink("pairs", CollectBolt)
    tens = keyed.window(tumbling("10s")).count(name="tens")
    tens.key_by("user").window(tumbling("1m")).aggregate(name="m", most=agg.max("count")).sink(
        "most", CollectBolt
    )
    outcome = pipeline.test(rows=rows)
    assert [r["count"] for r in outcome["visits"]] == [3, 2, 1]
    assert [r["n"] for r in outcome["pairs"]] == [[0, 1], [2, 3], [4, 5]]
    assert [r["most"] for r in outcome["most"]] == [3, 1]


def test_each_row_is_in_the_first_branch_that_takes_it(pipeline):
    rows = source(pipeline)
    of_functions = rows.branch(big=lambda r: r.n > 6, odd=lambda r: r.n % 2)
    of_texts = rows.branch(big="n > 6", odd="n % 2 = 1")
    for kind, parts in (("function", of_functions), ("text", of_texts)):
        for name in ("big", "odd", "rest"):
            parts[name].sink(f"{kind}-{name}", CollectBolt)
    outcome = pipeline.test(rows=[row(n) for n in range(10)])
    for kind in ("function", "text"):
        found = {
            name: [r["n"] for r in outcome[f"{kind}-{name}"]] for name in ("big", "odd", "rest")
        }
        assert found == {"big": [7, 8, 9], "odd": [1, 3, 5], "rest": [0, 2, 4, 6]}
    with pytest.raises(AttributeError, match="no branch 'odds'"):
        _ = of_texts.odds
    with pytest.raises(ValidationFailed, match="rest is what no branch takes"):
        rows.branch(rest="n > 6")


@pytest.mark.parametrize("kind", ["text", "function", "both"])
def test_branches_of_one_stream_may_be_merged_and_joined_with_it(pipeline, kind):
    """A bolt can't receive a stream twice: all but one of the branches become bolts."""
    rows = timed(pipeline)
    texts = rows.branch(big="n > 6", odd="n % 2 = 1")
    functions = rows.branch(big=lambda r: r.n > 6, odd=lambda r: r.n % 2)
    big = (texts if kind == "text" else functions).big.with_fields(kind="'big'")
    odd = (functions if kind == "function" else texts).odd.with_fields(kind="'odd'")
    big.merge(odd).sink("out", CollectBolt)
    joined = rows.select("user", "at", m="n").join(rows, on={"m": "n"}, window=tumbling("10s"))
    joined.sink("with-itself", CollectBolt)
    outcome = pipeline.test(rows=[row(n) for n in range(10)])
    found = {(r["n"], r["kind"]) for r in outcome["out"]}
    assert found == {(n, "big") for n in (7, 8, 9)} | {(n, "odd") for n in (1, 3, 5)}
    assert len(outcome["out"]) == 6
    assert sorted(r["m"] for r in outcome["with-itself"]) == [*range(10)]


def test_a_field_may_be_called_row(pipeline):
    rows = source(pipeline)
    rows.select("n", row="n * 2").sink("selected", CollectBolt)
    rows.with_fields(row="n * 2").select("row").sink("text", CollectBolt)
    rows.with_fields(row=lambda r: r.n * 2).select("row").sink("function", CollectBolt)
    outcome = pipeline.test(rows=[row(3)])
    assert outcome["selected"] == [{"n": 3, "row": 6}]
    assert outcome["text"] == outcome["function"] == [{"row": 6}]


def test_merged_streams_have_the_rows_of_all_with_fields_in_one_order(pipeline):
    first = source(pipeline).select("n", "user")
    second = source(pipeline, "others").select("user", n="n + 100")
    first.merge(second).filter(lambda r: r.n != 1).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(0), row(1)], others=[row(2, "b")])
    found = sorted((r["n"], r["user"]) for r in outcome["out"])
    assert found == [(0, "a"), (102, "b")]


JOINS = {
    "interval": {"within": ("-5s", "5s")},
    "window": {"window": tumbling("10s")},
    "table": {},
}


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@pytest.mark.parametrize("kind", JOINS)
def test_joins_find_the_rows_that_belong_together(pipeline, kind, how):
    left, right = timed(pipeline), timed(pipeline, "others")
    joined = left.filter(lambda r: r.n < 9).join(
        right.select("at", buyer="user", m="n"), on={"user": "buyer"}, how=how, **JOINS[kind]
    )
    joined.sink("out", CollectBolt)
    outcome = pipeline.test(
        rows=[row(1, "a", 12), row(2, "b", 12)], others=[row(3, "a", 14), row(4, "c", 14)]
    )
    found = {(r["n"], r["m"]) for r in outcome["out"]}
    expected = {(1, 3)}
    if how != "inner":
        expected |= {(2, None)}
    if how == "full":
        expected |= {(None, 4)}
    if kind == "table":  # what is alone for a while is emitted alone
        expected |= {pair for pair in found if None in pair}
    assert found == expected


def test_totals_of_totals_count_each_key_once(pipeline):
    rows = pipeline.source("rows", ListSpout((), fields=["who"]))
    totals = rows.key_by("who").aggregate(n="count", retract=True)
    totals.key_by("n").aggregate(name="keys", keys="count").sink("out", CollectBolt)
    outcome = pipeline.test(rows=[("a",), PAUSE, ("a",), PAUSE, ("b",)])
    found = {row["n"]: row["keys"] for row in outcome["out"]}
    assert found == {1: 1, 2: 1}


def test_a_regular_join_takes_back_what_is_none_any_more(pipeline):
    """Also of what was taken back on the left side."""
    tickets = pipeline.source("tickets", ListSpout((), fields=["n", "team", "op"]))
    members = pipeline.source("members", ListSpout((), fields=["team", "name"]))
    changes = tickets.with_fields(is_retraction="op = '-D'").select("n", "team", "is_retraction")
    joined = changes.join(members, on="team", how="left", retract=True)
    joined.sink("out", CollectBolt)
    rows = [(n, "red", op) for n, op in ((1, "+I"), (2, "+I"), (1, "-D"))]
    outcome = pipeline.test(tickets=rows, members=[("red", "ann"), ("red", "bob")])
    left = Counter()
    for row in outcome["out"]:
        left[row["n"], row["name"]] += -1 if row["is_retraction"] else 1
    assert +left == {(2, "ann"): 1, (2, "bob"): 1}
    with pytest.raises(ValidationFailed, match="one of within, window and retract=True"):
        changes.join(members, on="team", within="5s", retract=True)


@pytest.mark.parametrize(("how", "expected"), [("semi", {1}), ("anti", {2, 3})])
def test_a_join_tells_which_rows_have_a_match_by_a_condition(pipeline, how, expected):
    left, right = timed(pipeline), timed(pipeline, "others").select("user", "at", m="n")
    joined = left.join(right, on="user", within=("-5s", "5s"), how=how, where="n < m")
    joined.sink("out", CollectBolt)
    outcome = pipeline.test(
        rows=[row(1, "a", 12), row(2, "b", 12), row(3, "a", 12)],
        others=[row(3, "a", 14), row(1, "b", 14)],
    )
    assert {r["n"] for r in outcome["out"]} == expected
    assert {*outcome["out"][0]} == {"user", "n", "at"}


GIVEN = [(5, "a", 3), (9, "b", 2), (9, "c", 1), (7, "d", 1), (9, "e", 12), (1, "f", 25)]
BIDS = [row(*of) for of in GIVEN]


@pytest.mark.parametrize("ties", [False, True])
def test_the_greatest_rows_of_windows_become_rows_again(pipeline, ties):
    """As DuckDB has them."""
    bids = timed(pipeline).with_fields(kind="'bid'").key_by("kind")
    greatest = bids.window(cumulative("20s", "10s")).aggregate(
        name="greatest",
        users=agg.max_by("user", "n", 2, ties=ties),
        ns=agg.max_by("n", "n", 2, ties=ties),
        least=agg.min_by("user", "n"),
    )
    rows = greatest.select("window_end", user="unnest(users)", n="unnest(ns)")
    rows.sink("out", CollectBolt)
    outcome = pipeline.test(rows=BIDS)
    found = [(r["window_end"].second, r["user"], r["n"]) for r in outcome["out"]]
    place = "rank() OVER (PARTITION BY s, e ORDER BY n DESC)"
    if not ties:
        place = "row_number() OVER (PARTITION BY s, e ORDER BY n DESC, t)"
    query = f"""
        SELECT (e + 20) % 60, who, n FROM (SELECT *, t // 20 * 20 s FROM events),
            (SELECT unnest([10, 20]) part), LATERAL (SELECT s + part e)
        WHERE t < e QUALIFY {place} <= 2 ORDER BY e, n DESC, t"""
    assert found == by_sql(query, events=("n BIGINT, who TEXT, t BIGINT", GIVEN))


@settings(max_examples=5, phases=NO_SHRINKING)
@given(rows=ROWS, others=ROWS)
@example(rows=[row(1), row(2, second=1), row(4, "b")], others=[row(3), row(5, "c")])
def test_co_groups_have_the_rows_of_both_sides_by_key_and_window(rows, others):
    pipeline = Streams("co-groups", workers=2)
    left = timed(pipeline).filter(lambda r: r.n % 3)
    right = timed(pipeline, "others").select("at", buyer="user", m="n")
    grouped = left.co_group(right, {"user": "buyer"}, window=tumbling("10s"), parallelism=2)
    grouped.sink("out", CollectBolt)
    outcome = pipeline.test(rows=rows, others=others)
    expected = defaultdict(lambda: ([], []))
    for r in rows:
        if r["n"] % 3:
            expected[r["user"], (r["at"] - START) // 10_000][0].append(r)
    for r in others:
        side = expected[r["user"], (r["at"] - START) // 10_000][1]
        side.append({"at": r["at"], "buyer": r["user"], "m": r["n"]})
    found = {
        (r["user"], (r["window_start"].timestamp() * 1000 - START) // 10_000): (
            sorted(r["left"], key=repr), sorted(r["right"], key=repr)
        )
        for r in outcome["out"]
    }  # fmt: skip
    assert found == {
        key: (sorted(some, key=repr), sorted(more, key=repr))
        for key, (some, more) in expected.items()
    }
    assert len(outcome["out"]) == len(expected)


@pytest.mark.parametrize("kind", ["typed", "windows", "given"])
def test_co_groups_take_rows_of_classes_and_results_of_windows(pipeline, kind):
    left, right = timed(pipeline), timed(pipeline, "others")
    more = {}
    if kind == "typed":
        left = left.map(as_timed)
    elif kind == "windows":
        left, right = (s.key_by("user").window(tumbling("5s")).count(name=n)
                       for s, n in ((left, "l"), (right, "r")))  # fmt: skip
    else:
        left, right = (s.map(lambda r: [r.user, r.at, r.n], fields=["user", "when", "n"])
                       for s in (left, right))  # fmt: skip
        more = {"time": "when", "unit": "ms"}
    grouped = left.co_group(right, "user", window=tumbling("1m"), name="both", **more)
    grouped.sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(1, second=1)], others=[row(2, second=2), row(3, second=30)])
    (found,) = outcome["out"]
    assert [len(found["left"]), len(found["right"])] == [1, 2]
    assert found["left"][0]["user"] == "a"


def test_co_groups_without_a_time_say_what_is_missing(pipeline):
    with pytest.raises(ValidationFailed, match="co_group needs the event time of the rows"):
        source(pipeline).co_group(source(pipeline, "others"), "user", window=tumbling("1m"))


def test_a_table_is_looked_up_as_it_is_or_as_it_was(pipeline):
    rows, prices = timed(pipeline), timed(pipeline, "prices").select("user", "at", price="n")
    rows.lookup(prices, "user", how="left", name="priced").sink("now", CollectBolt)
    rows.join_as_of(prices, "user", name="valid").sink("then", CollectBolt)
    outcome = pipeline.test(
        rows=[PAUSE, PAUSE, PAUSE, row(1, second=20)],
        prices=[row(10, second=10), row(30, second=30)],
    )
    assert [r["price"] for r in outcome["now"]] == [30]
    assert [(r["n"], r["price"]) for r in outcome["then"]] == [(1, 10)]


def test_a_table_that_is_a_file_is_looked_up(pipeline, tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("who,name\na,Ann\nc,Cid\n")
    options = {"path": str(path), "format": {"type": "csv", "fields": ["who", "name"]}}
    rows = source(pipeline).where("n < 5")
    named = rows.lookup_in(FileLookup, {"user": "who"}, header=True, add=["name"], **options)
    named.where("name is not null").sink("named", CollectBolt)
    alone = rows.lookup_in(
        FileLookup, {"user": "who"}, how="anti", name="alone", header=True, add=[], **options
    )
    alone.sink("unknown", CollectBolt)
    outcome = pipeline.test(rows=[row(1, "a"), row(2, "b"), row(7, "c")])
    assert [(r["n"], r["user"], r["name"]) for r in outcome["named"]] == [(1, "a", "Ann")]
    assert [r["user"] for r in outcome["unknown"]] == ["b"]


def test_a_test_says_which_table_is_not_there_instead_of_waiting_for_it(pipeline, tmp_path):
    table = {"path": str(tmp_path / "names.csv"), "format": {"type": "csv", "fields": ["user"]}}
    named = source(pipeline).lookup_in(FileLookup, "user", how="semi", **table)
    named.sink("out", CollectBolt)
    with pytest.raises(NotDrained, match=r"'rows-lookup' waits for file '.*names.csv'"):
        pipeline.test(rows=[row(1)])


def test_behind_tables_and_duplicates_windows_go_by_the_same_time(pipeline, tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("user,name\na,Ann\n")
    options = {"path": str(path), "format": {"type": "csv", "fields": ["user", "name"]}}
    prices = timed(pipeline, "prices").select("user", "at", price="n")
    named = timed(pipeline).lookup_in(FileLookup, "user", header=True, add=["name"], **options)
    once = named.deduplicate("n", within="1h", name="once").join_as_of(prices, "user", name="paid")
    minutes = once.key_by("name").window(tumbling("1m"))
    sums = minutes.aggregate(name="sums", n=agg.count(), paid=agg.sum("price"))
    found = collected(
        pipeline,
        sums,
        [row(1, second=20), row(1, second=21), row(2, second=25), row(3, second=80)],
        prices=[row(10, second=10), row(30, second=24)],
    )
    assert [(r["name"], r["n"], r["paid"]) for r in found] == [("Ann", 2, 40), ("Ann", 1, 30)]


def test_a_duplicate_that_is_kept_last_comes_after_its_time(pipeline):
    last = timed(pipeline).deduplicate("n", within="1h", keep="last")
    last.key_by("user").window(tumbling("1m")).count().sink("out", CollectBolt)
    with pytest.raises(ValidationFailed, match="the rows have no event time here"):
        pipeline.build()


@settings(max_examples=5, phases=NO_SHRINKING)
@given(rows=ROWS, asked=st.lists(st.sampled_from(["a", "b", "c"]), max_size=6))
@example(rows=[row(1), row(2, "b"), row(3)], asked=["a", "b", "c", "a"])
def test_a_state_is_asked_as_a_table_by_the_stream_of_its_values(rows, asked):
    pipeline = Streams("asked")
    keyed = source(pipeline).key_by("user")
    sums = keyed.update_state(lambda n, r: n + r.n, 0, fields="n", name="sums")
    queries = source(pipeline, "queries").select("user")
    queries.lookup(sums, "user", how="left", name="answers").sink("out", CollectBolt)
    outcome = pipeline.test(
        rows=rows, queries=[*[PAUSE] * 4, *({"user": user, "n": 0} for user in asked)]
    )
    known = defaultdict(int)
    for r in rows:
        known[r["user"]] += r["n"]
    expected = [{"user": user, "n": known.get(user)} for user in asked]
    assert sorted(outcome["out"], key=repr) == sorted(expected, key=repr)


def test_duplicates_are_passed_on_once(pipeline):
    rows = [row(n, user, second) for n, user, second in
            [(1, "a", 0), (1, "b", 1), (2, "a", 2), (1, "a", 90)]]  # fmt: skip
    stream = timed(pipeline).map(lambda r: list(r), fields=["user", "n", "at"])
    found = collected(pipeline, stream.deduplicate("n", within="1m"), rows)
    assert [(r["user"], r["n"]) for r in found] == [("a", 1), ("a", 2), ("a", 1)]


class Click(NamedTuple):
    user: str
    n: int
    at: int


@dataclass
class Timed:
    user: str
    at: int


def as_timed(row) -> Timed:
    return Timed(row.user, row.at)


@dataclass
class Spent:
    user: str
    cents: int


class Named(TypedDict):
    user: str
    count: int


def cents_of(click: Click) -> Spent:
    return Spent(click.user, click.n * 100)


def counted(spent: Spent) -> list[Named]:
    return [{"user": spent.user, "count": spent.cents // 100}]


class Double:
    def __call__(self, r):
        return [r["user"], r["count"] * 2]


def test_functions_get_and_give_objects_of_classes(pipeline):
    clicks = source(pipeline, row=Click).filter(lambda c: c.n > 1)
    spent = clicks.map(cents_of).peek(lambda s: s.cents)
    twice = spent.flat_map(counted).map(Double(), fields=["user", "count"])
    twice.filter(lambda r: r.count == r["count"] == r[1]).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(1), row(2)])
    assert outcome["out"] == [{"user": "a", "count": 4}]


class Part(NamedTuple):
    cents: int
    n: int


def test_a_class_of_with_fields_is_only_how_functions_see_rows(pipeline):
    wide = source(pipeline).with_fields(cents=lambda r: r.n * 100, row=Part)
    some = wide.filter(lambda part: part == (part.n * 100, part.n))
    some = some.with_fields(euros=lambda part: part.cents // 100)
    some.select("user", "n", "cents", "euros").sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(2)])
    assert outcome["out"] == [{"user": "a", "n": 2, "cents": 200, "euros": 2}]


def test_fields_of_any_name_are_found(pipeline):
    stream = source(pipeline).map(
        lambda r: [r.n, r.n, r.n, r.n], fields=["window-start", "class", "order", "_x"]
    )
    stream = stream.filter(lambda r: r["window-start"] == r["class"] == r.order == r["_x"])
    stream = stream.where('"window-start" = order').select("order", b='"window-start" + "class"')
    assert collected(pipeline, stream, [row(3)]) == [{"order": 3, "b": 6}]


def failing(r):
    if r.n == 2:
        raise KeyError("amount")
    if r.n == 3:
        raise FailedException("not today")
    return True


def test_a_row_for_which_a_function_raises_fails_alone_and_says_where(pipeline):
    stream = source(pipeline).where("n > 0").peek(lambda r: 0).filter(failing)
    stream.sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(n) for n in range(5)], replays=False)
    assert [r["n"] for r in outcome["out"]] == [1, 4]
    failed = dict(outcome.result.failed("rows"))
    assert failed[3] == "not today"
    line = failing.__code__.co_firstlineno + 9  # of the call of filter, in the test
    place = f"test_operators.py:{line}"
    assert failed[2].endswith(f"step 2 'filter' ({place}): KeyError: 'amount'")
    assert [e.task for e in outcome.result.errors if "KeyError" in e.message]


def test_an_error_about_none_names_the_fields_that_are_none(pipeline):
    stream = source(pipeline).with_fields(lacking="nullif(n, 2)", there="n")
    stream.filter(lambda r: r.lacking > 0).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(1), row(2)], replays=False)
    failed = dict(outcome.result.failed("rows"))
    assert failed[1].endswith("'NoneType' and 'int' (None in this row: lacking)")


def half(r):
    yield [r.n]
    if r.n == 1:
        raise ValueError("half-way")
    yield [r.n + 100]


def test_errors_of_steps_are_a_stream_and_nothing_of_a_failed_row_comes_out(pipeline):
    stream = source(pipeline).flat_map(half, fields=["n"], name="halves")
    stream.sink("out", CollectBolt)
    stream.errors.select("step", "reason").sink("errors", CollectBolt)
    outcome = pipeline.test(rows=[row(0), row(1), row(2)])
    assert [r["n"] for r in outcome["out"]] == [0, 100, 2, 102]
    (error,) = outcome["errors"]
    assert error["step"] == "halves"
    assert error["reason"].endswith("ValueError: half-way")
    assert outcome.result.acked("rows") == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(lambda s: s.map(lambda r: None, fields=["n"]), "returned None, but must return"
                     " a row of ['n']", id="none"),
        pytest.param(lambda s: s.flat_map(lambda r: "text", fields="n"), "flat_map returned 'text'",
                     id="text"),
        pytest.param(lambda s: s.map(lambda r: [1, 2], fields=["n"]), "returned [1, 2]", id="two"),
        pytest.param(lambda s: s.filter(attrgetter("usr")), "the row has no field 'usr'. Did"
                     " you mean 'user'?", id="attribute"),
        pytest.param(lambda s: s.filter(itemgetter("usr")), "the row has no field 'usr'",
                     id="name"),
    ],
)  # fmt: skip
def test_what_a_function_gives_wrongly_is_said(pipeline, call, reason):
    call(source(pipeline)).sink("out", CollectBolt)
    ((_, said),) = pipeline.test(rows=[row(1)], replays=False).result.failed("rows")
    assert reason in said


class Twice(BasicBolt):
    outputs = {"default": ["user", "n"], "odd": ["n"]}  # noqa: RUF012

    def execute(self, tup, collector):
        collector.emit([tup["user"], tup["n"]])
        if tup["n"] % 2:
            collector.emit([tup["n"]], stream="odd")


def test_any_bolt_may_be_in_the_middle_with_its_streams(pipeline):
    twice = source(pipeline).where("n < 4").key_by("user").process(Twice, name="twice")
    twice.filter(lambda r: r.n).sink("out", CollectBolt)
    twice.side("odd").sink("odd", CollectBolt)
    outcome = pipeline.test(rows=[row(n) for n in range(6)])
    assert [r["n"] for r in outcome["out"]] == [1, 2, 3]
    assert [r["n"] for r in outcome["odd"]] == [1, 3]


def test_for_each_ends_a_stream(pipeline):
    heard = []
    source(pipeline).filter(lambda r: r.n > 1).for_each(lambda r: heard.append(r.n))
    pipeline.test(rows=[row(n) for n in range(4)])
    assert heard == [2, 3]


def test_a_key_that_is_none_is_one_and_nan_or_a_list_fails(pipeline):
    rows = source(pipeline).with_fields(key=lambda r: {1: None, 2: float("nan"), 3: "x"}[r.n])
    rows.key_by("key").count().sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(1), row(2), row(3), row(1)], replays=False)
    assert [(r["key"], r["count"]) for r in outcome["out"]] == [(None, 1), ("x", 1), (None, 2)]
    assert [place for place, _ in outcome.result.failed("rows")] == [1]


def test_update_state_that_returns_none_forgets_the_key(pipeline):
    rows = source(pipeline).key_by("user")
    sums = rows.update_state(lambda n, r: n + r.n if r.n else None, 0, fields="n", name="sum")
    sums.sink("out", CollectBolt)
    outcome = pipeline.test(rows=[row(2), row(3), row(0), row(4)])
    assert [r["n"] for r in outcome["out"]] == [2, 5, 4]
    assert outcome.result.state("sum") == {"a": [4]}


def test_show_prints_rows_of_any_stream_of_the_real_source(pipeline, capsys):
    spout = ListSpout([["a", n, START] for n in range(9)], streams={"default": FIELDS})
    stream = pipeline.source("rows", spout).filter(lambda r: r.n > 1)
    stream.sink("out", CollectBolt)
    stream.select("n", "user").show(3)
    assert capsys.readouterr().out == "n  user\n2  a\n3  a\n4  a\n"
    assert stream.take(2) == [{"user": "a", "n": n, "at": START} for n in (2, 3)]
    assert pipeline.run().collected("out")[-1] == ["a", 8, START]


def test_pipe_gives_the_stream_to_a_function(pipeline):
    stream = source(pipeline).pipe(lambda s, n: s.filter(partial(lambda m, r: r.n > m, n)), 3)
    assert [r["n"] for r in collected(pipeline, stream, [row(n) for n in range(6)])] == [4, 5]
