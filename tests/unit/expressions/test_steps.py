"""`where` and `select` over rows: what is taken, what comes out, what fails alone."""

import random
import sys
from datetime import date

import pytest

from fulmen.expressions.steps import Steps, StepsRunner

FIELDS = ("auction", "price", "kind")


def run(rows, where=None, select=None, types=(), kept=0, runner=None):
    steps = Steps(FIELDS, where, None if select is None else tuple(select.items()), types, kept)
    done = (runner or StepsRunner(steps)).run(rows)
    at = range(len(rows)) if done.at is None else done.at
    out = [rows[i] for i in at] if done.rows is None else done.rows
    return dict(zip(at, out, strict=True)), done.failed


def test_rows_are_taken_and_made_anew():
    rows = [[123, 100, None], [5, 5, "a"], (246, 3, "b")]
    taken, failed = run(
        rows, "auction % 123 = 0", {"id": "auction", "kind": "upper(coalesce(kind, '-'))"}
    )
    assert (taken, failed) == ({0: (123, "-"), 2: (246, "B")}, {})


def test_a_row_that_fails_fails_alone():
    rows = [[1, "x", "a"], [1, 2, "b"], [0, 2**63 - 1, "c"], [1, 0, 7]]
    taken, failed = run(
        rows, "auction = 1 or price + 1 > 0", {"n": "price + 1", "k": "lower(kind)"}
    )
    assert taken == {1: (3, "b")}
    assert failed == {
        0: "where 'auction = 1 or price + 1 > 0': + takes numbers, but is between VARCHAR and"
        " BIGINT (column 16) (auction is 1, price is 'x')",
        2: "where 'auction = 1 or price + 1 > 0': 9223372036854775808 is no integer of 64 bits"
        " (auction is 0, price is 9223372036854775807)",
        3: "select k 'lower(kind)': there is no lower(BIGINT) (column 1) (kind is 7)",
    }


def test_fields_that_are_only_passed_on_may_be_anything():
    thing = object()
    assert run([[1, thing, []]], "auction = 1", {"p": "price", "k": "kind"}) == (
        {0: (thing, [])},
        {},
    )


def test_the_attempt_of_a_transaction_is_kept_in_front():
    assert run([["tx", 2, "a"]], select={"n": "price * 2"}, kept=1) == ({0: ("tx", 4)}, {})


@pytest.mark.parametrize("declared", [(), (("price", "float64"),)])
def test_a_row_means_the_same_whichever_rows_come_with_it(declared):
    rows = [[None, 1, "a"], [2, 2.5, None], [3, None, "c"], ["4", True, 5], [None, None, None]]
    select = {"a": "coalesce(price, auction, 0)", "b": "kind || 'x'", "c": "auction + price"}
    alone = [run([row], None, select, declared) for row in rows]
    taken, failed = run(rows, None, select, declared)
    assert [[*map(repr, taken.get(i, ()))] for i in range(len(rows))] == [
        [*map(repr, one.get(0, ()))] for one, _ in alone
    ]
    assert failed == {i: wrong[0] for i, (_, wrong) in enumerate(alone) if wrong}
    assert taken
    assert failed


@pytest.mark.parametrize(
    ("pattern", "text", "is_like"),
    [
        ("a_%b", "ab", False),
        ("a_%b", "axb", True),
        ("%a%a_%", "aa", False),
        ("%a%a_%", "aab", True),
    ],
)
def test_parts_of_a_pattern_do_not_overlap(pattern, text, is_like):
    taken, _ = run([[1, 1, text]], f"kind like '{pattern}'")
    assert bool(taken) == is_like


CHUNKS = [
    ("auction % 3 = 1 or price > 2", {"n": "coalesce(price, auction, 0)", "k": "kind || 'x'"}),
    ("auction % 3 = 1 or price > 2", None),
    (None, {"n": "price * auction", "a": "auction", "k": "upper(kind)"}),
    ("price > 2 and price + 9223372036854775800 > 0", {"k": "kind", "n": "price + 1"}),
    (
        "lower(kind) in ('k', 'b') or price * 3 > 9 or split_part('-' || kind, '-', 3) <> ''",
        {
            "k": "case lower(kind) when 'k' then '1' when 'b' then '2' when 'k' then '3'"
            " else split_part('-' || kind, '-', 3) end",
            "p": "split_part('-' || kind, '-', 2)",
            "n": "case when auction > 4 then price * 3 else nullif(price * 3, 6) end",
            "m": "if(price > 1, (price * 3) // 2, nullif(price * 3, 6))",
        },
    ),
]
KINDS = ["K", "k", "b-", "a-c", "a--d", ""]
ODD = [None, 2.5, "4", True, 2**63 - 1, [], b"a"]


@pytest.mark.parametrize(("where", "select"), CHUNKS)
def test_a_chunk_of_any_mixture_has_the_results_of_its_rows(where, select):
    """Whether all rows are of the types of the first, one is not, or has no value, or many."""
    rng, steps = random.Random(7), Steps(FIELDS, where, select and tuple(select.items()))
    single, failures, results, odd_ones = StepsRunner(steps), 0, 0, 0
    runner = StepsRunner(steps)
    for _ in range(200):
        count = rng.randrange(1, 9)
        rows = [[rng.randrange(9), rng.randrange(5), rng.choice(KINDS)] for _ in range(count)]
        if rng.random() < 0.3:
            odd_ones += 1
            for _ in range(rng.randrange(1, 4)):
                rng.choice(rows)[rng.randrange(3)] = rng.choice(ODD)
        else:
            runner = StepsRunner(steps)  # which has not met an odd one yet
        done = runner.run(rows)
        at = range(len(rows)) if done.at is None else done.at
        found = {i: rows[i] if done.rows is None else done.rows[k] for k, i in enumerate(at)}
        alone = [run([row], where, select, runner=single) for row in rows]
        wanted = {i: taken[0] for i, (taken, _) in enumerate(alone) if taken}
        assert (repr(found), done.failed) == (
            repr(wanted),
            {i: failed[0] for i, (_, failed) in enumerate(alone) if failed},
        )
        failures, results = failures + len(done.failed), results + len(found)
    assert min(failures, results, odd_ones) > 9


class Looked(list):
    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize(("where", "select"), CHUNKS[:3])
def test_rows_of_the_types_of_the_first_are_looked_at_once(where, select):
    rows = Looked([n, n % 5, "k"] for n in range(20))
    done = StepsRunner(Steps(FIELDS, where, select and tuple(select.items()))).run(rows)
    assert (rows.times, done.failed) == (1, {})
    assert done.rows or done.at


@pytest.mark.parametrize("n", [2**62 - 1, 2**62])
def test_a_sum_of_rests_and_a_product_of_lengths_may_be_too_large(n):
    rests = "auction % 9223372036854775807 + price % 9223372036854775807"
    product = "(auction % 4294967296) * length(kind)"
    taken, failed = run([[n, n, "k"]], None, {"sum": rests, "product": product})
    if n < 2**62:
        assert taken == {0: (2**63 - 2, 2**32 - 1)}
    else:
        assert "9223372036854775808 is no integer of 64 bits" in failed[0]


@pytest.mark.parametrize(
    ("where", "select", "calls"),
    [
        (None, {"a": "split_part(kind, '/', 2)", "b": "split_part(kind, '/', 1)"}, 20),
        ("trim(kind) <> ''", {"a": "upper(trim(kind)) || trim(kind)"}, 20),
        ("auction > 9 and trim(kind) <> ''", {"a": "trim(kind)"}, 10),
        (None, {"a": "if(auction > 9, trim(kind), '')", "b": "coalesce(trim(kind), 'x')"}, 20),
        (None, {"a": "if(auction > 9, trim(kind), trim(kind))", "b": "try(trim(kind))"}, 40),
    ],
)
def test_what_is_asked_for_twice_is_calculated_once(where, select, calls):
    """And that which not every row needs only for those that need it."""
    runner = StepsRunner(Steps(FIELDS, where, tuple(select.items())))
    rows, made = [[n, n, f" {n}/x"] for n in range(20)], 0
    runner.run(rows)

    def count(_, event, called):
        nonlocal made
        made += event == "c_call" and called.__name__ in ("split", "strip")

    sys.setprofile(count)
    try:
        done = runner.run(rows)
    finally:
        sys.setprofile(None)
    assert (made, done.failed) == (calls, {})


def test_what_is_asked_for_twice_in_parentheses_has_a_name_of_its_own():
    """Of what only some rows need, which is named where it is asked for first."""
    first, second = "(DATE '1969-12-31')", "(DATE '1970-01-01')"
    choice = f"case when auction > 9 then {first} else least({second}, {first}, {second}) end"
    taken, _ = run([[n, n, "x"] for n in (1, 10)], None, {"a": choice})
    assert taken == {0: (date(1969, 12, 31),), 1: (date(1969, 12, 31),)}
