"""What operator and driver say to each other: how it travels, and what other versions may say."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from fulmen.kube.contract.endings import Ended, Mistake
from fulmen.kube.contract.reports import DriverPhase, Report, executor_name
from fulmen.kube.contract.revisions import Directive, Revision

REVISION = Revision(generation=3, topology={"kind": "Topology"})


def test_executors_are_named_by_their_tasks():
    assert executor_name("split", 3, 4) == "split[3-4]"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(REVISION, id="revision"),
        pytest.param(Report(phase=DriverPhase.ACTIVE, generation=1, tasks={"a": 2}), id="report"),
        pytest.param(
            Ended(reason="Drained", message="ß", errors=(Mistake(reason="r"),)), id="ended"
        ),
    ],
)
def test_messages_arrive_as_they_were_sent(message):
    assert type(message).from_json(message.to_json()) == message


def test_equal_messages_are_equal_text():
    one = Report(phase=DriverPhase.ACTIVE, generation=1, tasks={"a": 2, "b": 3})
    assert one.to_json() == one.model_copy(update={"tasks": {"b": 3, "a": 2}}).to_json()


def test_what_utf8_can_not_say_becomes_a_question_mark():
    said = Ended(reason="Error", message="no file 'a\udcff.txt', ß").to_json()
    assert Ended.from_json(said.encode()).message == "no file 'a?.txt', ß"


def test_fields_of_a_newer_version_are_ignored():
    text = REVISION.to_json().replace('"generation":3', '"generation":3,"colour":"red"')
    assert Revision.from_json(text) == REVISION


def test_what_an_older_version_leaves_out_has_a_default():
    revision = Revision.from_json('{"generation": 1, "topology": {}}')
    assert revision.directive is Directive.RUN
    assert revision.last_batch == 0


def test_a_directive_nobody_knows_is_an_error():
    with pytest.raises(ValidationError):
        Revision.from_json('{"generation": 1, "topology": {}, "directive": "Dance"}')


def test_the_contract_loads_neither_spark_nor_a_kubernetes_client():
    code = "import sys, fulmen.kube.contract; print({'pyspark', 'kubernetes'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert output.stdout == "set()\n"
