"""Sinks that make something of each row by itself."""

import pytest

from fulmen.connectors.base.sink import MessageSink
from fulmen.connectors.formats import Malformed
from fulmen.connectors.options import SinkOptions
from fulmen.errors import FulmenError
from support.connectors.sql_sinks import context


class Words(MessageSink):
    config_model = SinkOptions

    def encoder(self, fields):
        if "word" not in fields:
            raise Malformed(f"there is no field 'word', only {list(fields)}")
        return lambda values: values[fields.index("word")]

    def prepare(self, conf, context):
        self.look_at_inputs(context)

    def write(self, rows, mark):
        pass


def test_an_input_without_a_field_that_is_needed_is_refused_at_the_start():
    Words().prepare({}, context(SinkOptions(), ("n", "word")))
    with pytest.raises(FulmenError, match=r"in what it receives from '\w+', there is no field"):
        Words().prepare({}, context(SinkOptions(), ("n",)))
