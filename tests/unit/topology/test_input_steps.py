"""Mistakes in `where` and `select`, and what bolts and sinks know of the streams that they get."""

import pytest

from fulmen import BasicBolt, Spout, Stream, TopologyBuilder
from fulmen.testing import CollectBolt
from fulmen.topology.reading.documents import to_document
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate

TYPES = {"auction": "int64", "price": "int64", "kind": "string"}
LABEL = "bolt 'results', input from 'bids'"
PATH = "spec.bolts[0].inputs[0]"


class Bids(Spout):
    """Declares the types of its fields."""

    outputs = {"default": Stream(("auction", "price", "kind", "at"), types=TYPES)}  # noqa: RUF012

    def next_tuple(self):
        """Emits nothing."""


class Asks(BasicBolt):
    """Tells what it is asked about its inputs."""

    outputs = ()

    def check_input(self, options, stream):
        """Tells all it knows of the stream."""
        return [Warning(f"{list(stream.fields)} {dict(stream.types)} {stream.time}")]

    def execute(self, tup, collector):
        """Does nothing."""


def document(where=None, select=None, fields=("auction",), bolt=CollectBolt, config=None):
    builder = TopologyBuilder()
    builder.set_spout("bids", Bids).set_event_time("at", unit="ms")
    results = builder.set_bolt("results", bolt).set_config(config or {})
    results.fields_grouping("bids", fields)
    made = to_document(builder.build())
    steps = {"where": where, "select": select}
    made["spec"]["bolts"][0]["inputs"][0] |= {k: v for k, v in steps.items() if v is not None}
    return made


def told(found, **how):
    return [str(problem) for problem in check(found, **how).problems]


def test_every_mistake_is_told_with_its_place_and_a_suggestion():
    select = {
        "auction": "auction",
        "euros": "kind * 0.908 + prize",
        "kind": "uper(kind)",
        "n": "price +",
        "cut": "substr(kind, 'a')",
    }
    assert told(document("auction % 123 and kind > 5", select, ["euro"])) == [
        f"{PATH}.where: {LABEL}: where 'auction % 123 and kind > 5': where takes a BOOLEAN, and no"
        " BIGINT (column 1).",
        f"{PATH}.where: {LABEL}: where 'auction % 123 and kind > 5': VARCHAR and BIGINT can't be"
        " compared by > (column 19). Write a CAST of one of them.",
        f"{PATH}.select.euros: {LABEL}: select euros 'kind * 0.908 + prize': * takes numbers, but"
        " is between VARCHAR and DOUBLE (column 1). Write CAST(… AS DOUBLE).",
        f"{PATH}.select.euros: {LABEL}: select euros 'kind * 0.908 + prize': there is no field"
        " 'prize' (column 16). Did you mean 'price'?",
        f"{PATH}.select.kind: {LABEL}: select kind 'uper(kind)': there is no function 'uper'"
        " (column 1). Did you mean 'upper'?",
        f"{PATH}.select.n: {LABEL}: select n 'price +': it can't be read at '+' (column 7).",
        f"{PATH}.select.cut: {LABEL}: select cut \"substr(kind, 'a')\": there is no substr(VARCHAR,"
        " VARCHAR) (column 1). There is substr(VARCHAR, BIGINT[, BIGINT]).",
        f"{PATH}.grouping.fields[0]: {LABEL}: fields grouping on 'euro', but stream 'default'"
        " declares ['auction', 'euros', 'kind', 'n', 'cut']. Did you mean 'euros'?",
    ]


@pytest.mark.parametrize(
    "text",
    ["read_csv('x')", "getenv('HOME')", "(select 1)", "sum(price)", "a; DROP TABLE b", "now()",
     "price.x", "random() > 0", "*", "$1", "price::nothing", "exists(select 1)", "price = ANY([1])",
     "query('x')", "{'a': 1}", "current_user", "a -> 'x'", "0x1F", "price collate nocase"],
)  # fmt: skip
def test_what_is_not_in_the_language_is_refused(text):
    assert any(
        ".select.n: " in one for one in told(document(None, {"n": text, "auction": "auction"}))
    )


@pytest.mark.parametrize(
    "text",
    ["price is distinct from 5", "'a' is not distinct from kind", "5 is null", "null is null",
     "price is distinct from null", "kind not like 'a%' escape '!'", "(1 = 1) is true",
     "case price when 1 then true end", "nullif(kind, 'a') is null", "true",
     "coalesce(null, price) > 1", "price in (1, null)"],
)  # fmt: skip
def test_conditions_are_valid_and_give_python_that_warns_of_nothing(text):
    assert told(document(text)) == []


def test_arguments_of_a_function_that_is_none_are_looked_at_as_well():
    assert told(document("uper(knid) = coalesce(prize)")) == [
        f"{PATH}.where: {LABEL}: where 'uper(knid) = coalesce(prize)': there is no field 'knid'"
        " (column 6). Did you mean 'kind'?",
        f"{PATH}.where: {LABEL}: where 'uper(knid) = coalesce(prize)': there is no function 'uper'"
        " (column 1). Did you mean 'upper'?",
        f"{PATH}.where: {LABEL}: where 'uper(knid) = coalesce(prize)': there is no field 'prize'"
        " (column 23). Did you mean 'price'?",
    ]


def test_without_classes_only_names_of_fields_are_not_known():
    found = document("actoin > uper(kind)", {"n": "1 +"})
    assert told(found, import_classes=False) == [
        f"{PATH}.where: {LABEL}: where 'actoin > uper(kind)': there is no function 'uper'"
        " (column 10). Did you mean 'upper'?",
        f"{PATH}.select.n: {LABEL}: select n '1 +': it can't be read at '+' (column 3).",
    ]


def test_a_component_is_asked_about_what_it_gets():
    select = {"auction": "auction", "euros": "price * 0.908", "when": "at", "any": "at"}
    asked, *_ = told(document("price > 1", select, bolt=Asks))
    assert asked == (
        f"{PATH}: {LABEL}: ['auction', 'euros', 'when', 'any'] {{'auction': 'int64', 'euros':"
        " 'float64'} StreamTime(field='when', unit='ms', timezone='UTC')."
    )


def test_windows_are_told_of_a_time_that_is_not_selected():
    window = {"window": {"type": "tumbling", "size": "1h"}, "aggregates": {"n": "count"}}
    config = {**window, "key": ["auction"]}
    assert (
        told(document(None, {"auction": "auction", "at": "at"}, bolt=Aggregate, config=config))
        == []
    )
    (missing,) = told(document(None, {"auction": "auction"}, bolt=Aggregate, config=config))
    assert "time" in missing


@pytest.mark.parametrize("text", ["+".join(["price"] * 1000), "(" * 2000 + "1" + ")" * 2000])
def test_an_expression_that_is_nested_too_deeply_is_told(text):
    (problem,) = told(document(None, {"auction": "auction", "n": text}))
    assert "too deeply" in problem or "can't be read" in problem
