"""The tutorial, in its order: its files, and what its commands print, without Spark."""

import importlib
import inspect
import re
import sys

import pytest

from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.validation.check import check
from support.docs.pages import blocks, commands, write_files
from support.docs.shown_commands import output_of

PAGE = "docs/tutorial.md"
KILLED = re.compile(r" &$|^while |^kill ")
"""Commands about a run in the background, which is killed: tests/engine has them."""
ON_A_CLUSTER = re.compile(r"kubectl")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, the current one. The modules in it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.setenv("COLUMNS", "100")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.slow
def test_every_step_prints_what_the_page_shows(folder):
    for block in blocks(PAGE):
        if block.file:
            with open(folder / block.file, "a") as file:
                file.write(block.text)
        elif block.language == "console":
            for line, output in commands(block):
                if KILLED.search(line) or ON_A_CLUSTER.search(line):
                    continue
                command, _, target = line.partition(" > ")
                if command.startswith("fulmen") and target:
                    (folder / target).write_text(output_of(command))
                else:
                    said = [text.rstrip() for text in output_of(line).splitlines()]
                    assert said == output.splitlines() or not output, f"{block}: {line}"


def test_the_tests_of_the_page_pass(folder, tmp_path_factory):
    write_files(PAGE, folder)
    module = importlib.import_module("test_access")
    found = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(found) == 4
    for test in found:
        needs_folder = "tmp_path" in inspect.signature(test).parameters
        test(**({"tmp_path": tmp_path_factory.mktemp("files")} if needs_folder else {}))


@pytest.mark.parametrize("for_kubernetes", [False, True])
def test_the_whole_topology_is_valid(for_kubernetes, folder):
    write_files(PAGE, folder)
    document = parse_yaml((folder / "topology.yaml").read_text())
    assert len(document["spec"]["bolts"]) == 5
    if for_kubernetes:  # as `fulmen manifest` makes it
        files = {file.name: file.read_text() for file in folder.glob("*.py")}
        document["spec"]["code"] = {"files": files}
    problems = [*check(document, folder, for_kubernetes=for_kubernetes).problems]
    assert [str(problem) for problem in problems] == []
