"""The picture of the structure in docs/development.md is what import-linter enforces."""

import ast
import re
import tomllib
from graphlib import TopologicalSorter

import grimp
import pytest

from support.docs.pages import ROOT, blocks

PAGE = "docs/development.md"
SUBGRAPH = re.compile(r'subgraph (\w+)(?:\["(.*?)"\])?')
NODE = re.compile(r'(\w+)(?:\["(.*?)"\])?')


def enforced():
    """The floors of each contract about layers, from the top: container -> rooms on each floor."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        container: [
            {room.strip().strip("()") for room in floor.split("|")} for floor in contract["layers"]
        ]
        for contract in content["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
    }


def picture():
    """The lines of the picture."""
    [block] = [b for b in blocks(PAGE, "mermaid") if "fulmen_operator" in b.text]
    return [line.strip() for line in block.text.splitlines()]


def room(node):
    """The name of the room that a node stands for: its label up to a colon, or its id."""
    name, label = NODE.fullmatch(node.strip()).groups()
    return (label or name).partition(":")[0]


def drawn():
    """The floors of each frame of the picture, from the top: path of the frame -> rooms."""
    frames, found = [], {}
    for line in picture():
        if match := SUBGRAPH.match(line):
            name, label = match.groups()
            frames.append((label or name).partition(":")[0])
        elif line == "end":
            frames.pop()
        elif " --> " in line:
            frame = ".".join(frames)
            assert frame not in found, f"two rows of arrows in {frame}"
            floors = line.split(" --> ")
            found[frame] = [{room(node) for node in floor.split(" & ")} for floor in floors]
    return found


@pytest.mark.parametrize("container", sorted(enforced()))
def test_the_floors_of_the_picture_are_those_of_the_contract(container):
    assert drawn()[container] == enforced()[container]


def test_the_picture_has_no_frame_without_a_contract():
    assert drawn().keys() == enforced().keys()


def test_the_operator_uses_those_rooms_of_the_runtime_that_the_picture_shows():
    [line] = [line for line in picture() if "-.->" in line]
    source, targets = line.split(" -.-> ")
    assert source == "fulmen_operator"
    graph = grimp.build_graph("fulmen", "fulmen_operator")
    used = {
        imported.split(".")[1]
        for module in graph.modules
        if module.startswith("fulmen_operator")
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.startswith("fulmen.")
    }
    assert used == set(targets.split(" & "))


@pytest.mark.parametrize(
    ("heading", "container"),
    [("Rooms of the engine", "fulmen.engine"), ("Rooms of the operator", "fulmen_operator")],
)
def test_the_table_of_rooms_has_the_floors_of_the_contract(heading, container):
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    floors = {}
    for floor, rooms in re.findall(r"^\| (\d) \| (.+?) \|", section, re.MULTILINE):
        floors.setdefault(int(floor), set()).update(re.findall(r"`(\w+)`", rooms))
    assert [floors[number] for number in sorted(floors, reverse=True)] == enforced()[container]


def packages():
    """The `__init__.py` of every folder of runtime and operator."""
    folders = (ROOT / "runtime" / "fulmen", ROOT / "operator" / "fulmen_operator")
    return [path for folder in folders for path in sorted(folder.rglob("__init__.py"))]


@pytest.mark.parametrize("path", packages(), ids=lambda path: path.parent.name)
def test_a_folder_says_what_lives_in_it_and_who_may_use_what(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert len(text.splitlines()) >= 3


def test_the_glossary_has_each_word_once():
    text = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    glossary = text.partition("### Glossary\n")[2].partition("\n#")[0]
    words = re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE)
    assert len(words) > 20
    assert len(words) == len(set(words))


def test_no_files_import_each_other_in_a_circle():
    graph = grimp.build_graph("fulmen", "fulmen_operator")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # else a CycleError names them


def test_no_name_is_given_to_two_classes():
    named = {}
    for folder in ("runtime", "operator"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    named.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}
