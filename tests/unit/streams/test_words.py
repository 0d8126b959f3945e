"""What the page about migration says to write can be written."""

import re

import pytest

from fulmen import BasicBolt
from fulmen.connectors.console import StdoutSink
from fulmen.connectors.files import FileSpout
from fulmen.streams import Streams, agg, session, tumbling
from fulmen.testing import CollectBolt, ListSpout, ListTransactions
from support.docs.pages import ROOT

TABLE = re.compile(r"^\| (.+?) \| here.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
LATER = re.compile(r"\.(show|take|for_each)\(")
"""What runs at once, or gives no stream."""


class Own(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        collector.emit([tup["n"]])


def tables():
    """The tables, each with the code of its right column."""
    text = (ROOT / "docs/migration.md").read_text()
    text = text[text.index("## Pipelines") :]
    for system, rows in TABLE.findall(text):
        right = [row.rstrip(" |").rpartition(" | ")[2] for row in rows.splitlines()]
        yield system, [code for cell in right for code in re.findall(r"`([^`]*\([^`]*)`", cell)]


@pytest.mark.parametrize(("system", "codes"), [pytest.param(*t, id=t[0][:9]) for t in tables()])
@pytest.mark.filterwarnings("ignore:.*(nothing is behind|follows from a derived)")
def test_each_line_of_the_tables_can_be_written(system, codes):
    assert len(codes) > 4
    for code in codes:
        shop = Streams("words")
        if system == "Trident":
            s, t = (shop.source(n, ListTransactions([], ["user", "n"])) for n in "st")
        else:
            fields, time = ["user", "n", "at"], {"field": "at", "unit": "ms"}
            s, t = (shop.source(n, ListSpout([], fields), event_time=time) for n in "st")
        names = {
            "shop": shop, "s": s, "t": t, "f": lambda it: it, "g": lambda _, row: row, "Own": Own,
            "agg": agg, "session": session, "tumbling": tumbling, "FileSpout": FileSpout,
            "StdoutSink": StdoutSink,
        }  # fmt: skip
        made = eval(code, names)
        if not LATER.search(code) and ".sink(" not in code:
            made.sink("out", CollectBolt)
        s.sink("other", CollectBolt)
        shop.build()
