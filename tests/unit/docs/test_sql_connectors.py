"""The pages about SQL databases list all options."""

import re
import sqlite3
from contextlib import closing

import pytest
from pydantic_core import PydanticUndefined

from fulmen.connectors import postgres, sqlite
from fulmen.testing import run
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.docs.pages import ROOT, blocks

PAGES = {
    "docs/connectors/sqlite.md": [sqlite.SqliteSinkOptions, sqlite.SqliteQueryOptions],
    "docs/connectors/postgres.md": [
        postgres.PostgresSinkOptions,
        postgres.PostgresQueryOptions,
        postgres.PostgresQueueOptions,
    ],
}


def tables(page):
    """The tables of options on a page: option -> default."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for table in re.findall(r"^\| option .*\n(?:\|.*\n)+", text, re.MULTILINE):
        rows = [line.split(" | ") for line in table.splitlines()[2:]]
        yield {row[0].strip("| `"): row[1].strip("| `") for row in rows}


@pytest.mark.parametrize("page", PAGES)
def test_every_option_is_in_its_table_with_its_default(page):
    for shown, model in zip(tables(page), PAGES[page], strict=True):
        fields = {field.alias: field for field in model.model_fields.values()}
        assert shown.keys() == fields.keys()
        for name, field in fields.items():
            assert field.description, name
            if field.default not in (None, (), PydanticUndefined):
                assert shown[name] == str(field.default).lower(), name


def test_the_topology_of_sqlite_does_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [block] = blocks("docs/connectors/sqlite.md", "yaml")
    [commands] = blocks("docs/connectors/sqlite.md", "sh")
    for file, statement in re.findall(r'sqlite3 (\S+) "((?:CREATE|INSERT).*)"', commands.text):
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(statement)
    document = parse_yaml(block.text)
    document["spec"]["spouts"][0]["config"]["follow"] = False
    run(parse(document))
    with closing(sqlite3.connect("latest.db")) as db:
        found = db.execute("SELECT * FROM latest ORDER BY customer").fetchall()
    assert found == [("ann", 3, 30.0), ("bob", 2, 20.0)]
