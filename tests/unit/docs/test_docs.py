"""The documentation: its code runs, its topologies are valid, its commands and links exist."""

import importlib
import importlib.util
import json
import re
import shlex
import sys

import click
import pytest
from click.testing import CliRunner

from fulmen.api import (
    ArrowBolt,
    BasicBolt,
    BatchBolt,
    Bolt,
    Spout,
    TransactionalSpout,
    output_streams,
)
from fulmen.cli.main import main
from fulmen.testing import run
from fulmen.topology.reading.assignments import set_values
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.base import spelling
from fulmen.topology.resource.spec import Topology, TopologySpec
from fulmen.topology.resource.spec.event_time import EventTime
from fulmen.topology.validation.check import check
from support.docs.pages import (
    ROOT,
    anchors,
    blocks,
    commands,
    links,
    pages,
    without_blocks,
    write_files,
)
from support.docs.scripts import script
from support.parts.config_parts import WriterOptions

PAGES = ["README.md", *pages("docs")]
WITH_CODE = [
    *("README.md", "docs/guide", "docs/concepts.md", "docs/testing.md", "docs/transactions.md"),
    "docs/transactional-stores.md",
]
"""Pages, or folders of pages, whose files belong together. The tutorial has tests of its own."""
COMPONENTS = (Spout, Bolt, BasicBolt, ArrowBolt, BatchBolt, TransactionalSpout)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose modules can be imported; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("page", [*WITH_CODE, "docs/migration.md"])
def test_python_runs(page, folder):
    for name in write_files(page, folder):
        if name.endswith(".py"):
            module = importlib.import_module(name.removesuffix(".py"))
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    if issubclass(value, COMPONENTS) and value.config_model is None:
                        output_streams(value)
                elif name.startswith("test_") and getattr(value, "__name__", "")[:5] == "test_":
                    value()


@pytest.mark.parametrize(
    ("page", "block"),
    [pytest.param(page, b, id=str(b)) for page in WITH_CODE for b in blocks(page, "yaml")],
)
def test_topologies_are_valid(page, block, folder):
    write_files(page, folder)
    document = parse_yaml(block.text)
    if isinstance(document, list):
        document = {"bolts": document}
    if "kind" not in document:  # a part of a spec
        document = within_a_topology(document, page)
    assert [str(problem) for problem in check(document, folder).problems] == []


def within_a_topology(part, page):
    """A part of a spec, in the page's own topology, in place of its components of the same name."""
    assert set(part) <= {field.alias for field in TopologySpec.model_fields.values()}
    topologies = [block for block in blocks(page, "yaml") if "kind: Topology" in block.text]
    whole = parse_yaml(min(topologies, key=lambda block: block.file != "shop.yaml").text)
    spec = {**whole["spec"], **part}
    for kind in {"spouts", "bolts"} & whole["spec"].keys():
        named = {component["name"]: component for component in whole["spec"][kind]}
        spec[kind] = list((named | {c["name"]: c for c in part.get(kind, [])}).values())
    return {**whole, "spec": spec}


def command_lines():
    """Every command line that the pages show: the rest of the line after `$ `."""
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                for line, _ in commands(block):
                    yield pytest.param(line.partition("  #")[0], id=f"{block}: {line}")


@pytest.mark.parametrize("line", list(command_lines()))
def test_commands_exist(line):
    program, *arguments = shlex.split(re.split(r" \| | \d?> ", line)[0])
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets
    if program == "fulmen":
        command = main
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), arguments.pop(0))
        # a file need not be there
        for parameter in command.params:
            if isinstance(parameter.type, click.Path):
                parameter.type.exists = False
        command.make_context("fulmen", arguments, resilient_parsing=False)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            name = str(file.resolve().relative_to(ROOT))
            assert anchor in anchors(name), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_lines_are_not_long(page):
    lines = without_blocks(page).splitlines()
    assert [line for line in lines if len(line) > 130 and not line.startswith("|")] == []


def test_the_annotated_example_has_every_field():
    whole = next(b for b in blocks("docs/guide", "yaml") if b.file == "shop.yaml")
    schema = Topology.model_json_schema(by_alias=True)
    models = [schema, *schema["$defs"].values()]
    fields = {name for model in models for name in model["properties"]}
    written_by_a_program, of_transactions = (
        {"instance", "through", "types"},
        {"transactional", "committer"},
    )
    of_time = {spelling(name) for name in EventTime.model_fields} | {"eventTime"}
    elsewhere = written_by_a_program | of_transactions | of_time - {"field", "stream", "timezone"}
    assert fields - set(re.findall(r"(\w+):", whole.text)) == elsewhere


def test_the_table_of_fields_is_that_of_the_models():
    path = ROOT / "scripts" / "spec_table.py"
    spec = importlib.util.spec_from_file_location("spec_table", path)
    spec_table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(spec_table)
    page = spec_table.PAGE.read_text(encoding="utf-8")
    assert spec_table.with_tables(page) == page, "run scripts/spec_table.py"


TABLES = script("option_tables")


@pytest.mark.parametrize("page", TABLES.pages(), ids=lambda page: page.name)
def test_tables_of_options_are_those_of_the_models(page):
    text = page.read_text(encoding="utf-8")
    assert TABLES.with_tables(text) == text, "run scripts/option_tables.py"


def test_a_table_has_names_types_defaults_and_docstrings():
    assert TABLES.option_table(WriterOptions).splitlines() == [
        "| option | type | default | |",
        "|---|---|---|---|",
        "| `dsn` | text | required | Where the store is. Text of any kind. |",
        "| `batchSize` | whole number from 1 to 1,000 | `100` | Rows of one call. |",
        "| `mode` | `insert` `upsert` | `insert` |  |",
        "| `columns` | list of text | `[word]` |  |",
        "| `layout` | mapping whose `type` is `comma` `plain` | `{type: plain}` |  |",
        "| `hosts` | list of mappings |  |  |",
        "| `limit` | whole number or text |  |  |",
        "| `password` | text, secret |  | What nobody may see. |",
        "| `isFast` | `true` or `false` | `false` |  |",
    ]


def test_the_annotated_example_runs(folder):
    write_files("docs/guide", folder)
    orders = [{"id": i, "customer": "ann" if i % 2 else "bob", "cents": 100} for i in range(6)]
    orders.append({"id": 6, "customer": "eve", "cents": -1})
    file = folder / "orders.jsonl"
    file.write_text("\n".join([*map(json.dumps, orders), "oops"]))
    changes = [f"spec.spouts[orders].config.file={file}"]
    topology = parse(set_values(parse_yaml((folder / "shop.yaml").read_text()), changes))
    result = run(topology, emits=True)
    assert result.state("revenue") == {"ann": 300, "bob": 300}
    baskets = {customer: sorted(orders) for customer, orders in result.emitted("baskets")}
    assert baskets == {"ann": [1, 3, 5], "bob": [0, 2, 4]}
    assert result.state("quarantine") == {6: [[json.dumps(orders[6])], "a negative amount"]}
    assert result.emitted("parse", "errors")[0][0] == "oops"
    assert result.trees["dead_lettered"] == 1


DETERMINISTIC = ("validate", "plan", "state")


def outputs():
    """The commands whose output is always the same, and what the pages say that it is."""
    for page in WITH_CODE:
        for block in blocks(page, "console"):
            for line, output in commands(block):
                if line.split()[:1] == ["fulmen"] and line.split()[1] in DETERMINISTIC and output:
                    yield pytest.param(line, output, id=f"{block}: {line}")


@pytest.mark.parametrize(("line", "output"), list(outputs()))
def test_outputs_are_those_of_the_commands(line, output, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    write_files("README.md", folder)
    arguments = shlex.split(line)[1:]
    if arguments[0] == "state":
        addition = next(b for b in blocks("README.md", "yaml") if b.file is None)
        document = parse_yaml((folder / "topology.yaml").read_text() + addition.text)
        run(parse(document), checkpoint=(folder / arguments[2]).as_uri())
    result = CliRunner().invoke(main, arguments, prog_name="fulmen")
    assert [text.rstrip() for text in result.output.splitlines()] == output.rstrip().splitlines()


def test_the_first_spout_says_when_it_has_nothing_left_to_emit(folder):
    """So `fulmen run --until-drained` ends at once, without waiting for more."""
    write_files("README.md", folder)
    spout = importlib.import_module("wordcount").Lines()
    assert not spout.is_exhausted()
    spout.todo.clear()
    assert spout.is_exhausted()
    spout.fail(3)
    assert not spout.is_exhausted()
