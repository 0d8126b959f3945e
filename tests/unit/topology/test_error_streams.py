"""A class that declares the stream `errors` otherwise than Fulmen's own code emits there."""

import pytest

from fulmen import BasicBolt, Sink, Stream
from fulmen.connectors.console import StdinSpout
from fulmen.topology.validation.check import check
from support.cli.documents import word_count

HERE = __name__


class Writes(Sink):
    def write(self, rows, mark):
        pass


class OwnNames(Writes):
    outputs = {"errors": ("order", "why")}  # noqa: RUF012


class NoErrors(Writes):
    outputs = ()


class OneField(Writes):
    outputs = {"errors": ("row",)}  # noqa: RUF012


class Direct(Writes):
    outputs = {"errors": Stream(("row", "reason"), direct=True)}  # noqa: RUF012


class OwnBolt(BasicBolt):
    outputs = {"errors": ("x",)}  # noqa: RUF012

    def execute(self, tup, collector):
        pass


class SameLines(StdinSpout):
    pass


class TwoOfThree(StdinSpout):
    def outputs_for(self, options):
        return {**super().outputs_for(options), "errors": ("data", "reason")}


def problems(changes):
    return [str(problem) for problem in check(word_count(changes)).problems]


def of_sink(cls):
    inputs = [{"from": "split", "grouping": {"type": "shuffle"}}]
    sink = {"name": "x", "class": f"{HERE}.{cls.__name__}", "inputs": inputs}
    return problems({"spec.bolts.2": sink})


@pytest.mark.parametrize(
    ("cls", "declared"),
    [(OneField, "with the fields ['row']"), (Direct, "as direct")],
)
def test_a_sink_whose_errors_stream_does_not_fit_is_refused(cls, declared):
    assert of_sink(cls) == [
        f"spec.bolts[2].class: bolt 'x': it declares stream 'errors' {declared}, but emits"
        " ['row', 'reason'] on it. Declare it with ['row', 'reason'], or with as many names of"
        " your own."
    ]


@pytest.mark.parametrize("cls", [Writes, OwnNames, NoErrors, OwnBolt])
def test_what_fits_or_is_never_emitted_is_accepted(cls):
    assert of_sink(cls) == []


def of_spout(cls):
    return [
        text
        for text in problems({"spec.spouts.0.class": f"{HERE}.{cls.__name__}"})
        if "errors" in text
    ]


def test_a_spout_that_is_derived_from_a_connector_must_have_its_errors_stream():
    assert of_spout(TwoOfThree) == [
        "spec.spouts[0].class: spout 'sentences': it declares stream 'errors' with the fields"
        " ['data', 'reason'], but emits ['data', 'reason', 'position'] on it. Declare it with"
        " ['data', 'reason', 'position'], or with as many names of your own."
    ]
    assert of_spout(SameLines) == []
