"""What the folders say of each other, `Uses …; used by …`, is what they import."""

import ast
import re

import grimp
import pytest

from support.docs.pages import ROOT

GRAPH = grimp.build_graph("fulmen", "fulmen_operator")
SAID = re.compile(r"\b(uses|used by)\b((?:(?!\bused by\b)(?:`[^`]*`|[^`.;:]))*)", re.IGNORECASE)
PATHS = {
    name: ROOT / folder / name.replace(".", "/") / "__init__.py"
    for name in sorted(GRAPH.modules)
    for folder in ("runtime", "operator")
    if (ROOT / folder / name.replace(".", "/") / "__init__.py").exists()
}


def inside(room):
    """The modules of a room."""
    return {room} | GRAPH.find_descendants(room)


def imported_by(room):
    """What a room imports that is not its own."""
    modules = inside(room)
    return {i for m in modules for i in GRAPH.find_modules_directly_imported_by(m)} - modules


def importers_of(room):
    """Who imports a room."""
    modules = inside(room)
    return {i for m in modules for i in GRAPH.find_modules_that_directly_import(m)} - modules


def meant(name, room):
    """The module that a name means: the nearest outside the room; None: it is no module's name."""
    parts = room.split(".")
    near = (".".join([*parts[:depth], name]) for depth in range(len(parts), -1, -1))
    return next((module for module in near if module in GRAPH.modules - inside(room)), None)


def said(room):
    """What a room's docstring says: (uses or used by, the words after it, the modules in them)."""
    text = ast.get_docstring(ast.parse(PATHS[room].read_text(encoding="utf-8")))
    for verb, words in SAID.findall(" ".join(text.split())):
        names = re.findall(r"`([\w.]+)`", words)
        yield verb.lower(), words, {found for name in names if (found := meant(name, room))}


@pytest.mark.parametrize("room", PATHS)
def test_a_room_uses_and_is_used_by_those_that_it_names(room):
    for verb, _, modules in said(room):
        others = imported_by(room) if verb == "uses" else importers_of(room)
        assert [module for module in sorted(modules) if not inside(module) & others] == []


@pytest.mark.parametrize("room", PATHS)
def test_a_room_that_says_only_uses_nothing_else(room):
    for verb, words, modules in said(room):
        if verb == "uses" and words.startswith(" only"):
            allowed = set().union(*map(inside, modules))
            assert sorted(imported_by(room) - allowed) == []
        if verb == "uses" and words.startswith(" nothing else of the engine"):
            assert sorted(imported_by(room) & inside("fulmen.engine")) == []
