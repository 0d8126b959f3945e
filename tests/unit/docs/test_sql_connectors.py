"""The pages about SQL databases list all options, and their topologies are valid."""

import re

import pytest
import yaml
from pydantic_core import PydanticUndefined

from fulmen.connectors import postgres, sqlite
from support.pages import ROOT, blocks

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


@pytest.mark.parametrize("page", PAGES)
def test_the_configuration_of_every_component_is_valid(page):
    [block] = blocks(page, "yaml")
    spec = yaml.safe_load(block.text)["spec"]
    for component in (*spec["spouts"], *spec["bolts"]):
        module, _, name = component["class"].rpartition(".")
        room = {"fulmen.connectors.sqlite": sqlite, "fulmen.connectors.postgres": postgres}[module]
        getattr(room, name).config_model(**component["config"])
