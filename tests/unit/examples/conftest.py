"""What tests of examples have in common."""

import sys

import pytest

from fulmen.topology.reading.assignments import set_values
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.docs.examples import EXAMPLES


@pytest.fixture
def example(monkeypatch):
    """Reads the topology of an example, with changes; its modules are forgotten afterwards."""
    before = set(sys.modules)

    def read(name, *changes):
        monkeypatch.chdir(EXAMPLES / name)
        monkeypatch.syspath_prepend(EXAMPLES / name)
        return parse(
            set_values(parse_yaml((EXAMPLES / name / "topology.yaml").read_text()), changes)
        )

    yield read
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
