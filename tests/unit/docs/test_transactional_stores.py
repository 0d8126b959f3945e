"""The page about stores: its committer counts each transaction once, and its layout is real."""

import importlib
import re
import sqlite3
from contextlib import closing

import pytest

from fulmen.services.pools import close_all
from fulmen.transactional import SqliteMap
from fulmen.transactional.columns import KINDS
from fulmen.transactional.conformance import at, context_of
from fulmen.transactional.stores.postgres_statements import POSTGRES_TYPES
from fulmen.transactional.stores.sql import columns_of
from fulmen.transactional.stores.sqlite import TYPES
from support.docs.pages import ROOT, blocks, write_files

PAGE = "docs/transactional-stores.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_files(PAGE, tmp_path)
    yield tmp_path
    close_all()


def commit(attempt, *words):
    """One attempt of the page's committer."""
    bolt = importlib.import_module("word_counts").WordCounts()
    bolt.prepare({"file": "counts.db"}, context_of(), None, attempt)
    for word in words:
        bolt.execute({"word": word})
    bolt.finish_batch()


def run(statement):
    with closing(sqlite3.connect("counts.db")) as db:
        found = db.executescript(statement) if ";" in statement else db.execute(statement)
        return found.fetchall()


def commands(of):
    """The SQL in the page's commands for a program."""
    text = "".join(block.text for block in blocks(PAGE, "sh"))
    return re.findall(rf'^{of} .*?"((?:SELECT|DROP)[^"]*)"$', text, re.MULTILINE)


def test_the_committer_counts_each_transaction_once(folder):
    commit(at(1), "apple", "pear", "apple")
    commit(at(1, 2), "apple", "pear", "apple")
    commit(at(2, 3), "pear")
    [query, _] = commands("sqlite3 counts.db")
    assert sorted(run(query)) == [("apple", 2), ("pear", 2)]


def test_a_map_can_be_deleted_to_start_anew(folder):
    commit(at(7), "apple")
    [query, deletes] = commands("sqlite3 counts.db")
    run(deletes)
    close_all()
    commit(at(1), "pear")
    assert run(query) == [("pear", 1)]


def test_the_columns_are_those_of_the_table():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text.partition("## Tables and keys for readers\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    owner = SqliteMap("counts.db", "counts", context_of(), rule="opaque").owner
    assert re.findall(r"`(\w+)`", " ".join(named)) == list(columns_of(owner))


def test_the_types_are_those_of_the_stores():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    section = text.partition("## Types of keys and values\n")[2].partition("\n## ")[0]
    rows = re.findall(r'^\| `"(\w+)"` \| .*? \| `(.*?)` \| `(.*?)`', section, re.MULTILINE)
    assert rows == [(kind, TYPES[kind], POSTGRES_TYPES[kind]) for kind in KINDS]
