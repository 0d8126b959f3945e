"""The clients of databases: needed only by the maps of their kind."""

import subprocess
import sys

import pytest

from fulmen.transactional.stores.clients import needs

WITHOUT = """
import sys
sys.modules["psycopg"] = sys.modules["redis"] = None  # as if they were not installed
import fulmen.transactional as t
from fulmen.transactional.conformance import context_of
for make in (t.PostgresMap, t.RedisMap):
    try:
        make("host=h", "counts", context_of())
    except t.StoreRefused as error:
        print(error)
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_client_that_is_not_installed_is_said():
    assert run(WITHOUT) == [
        f"map 'counts': the Python package {package!r} can't be imported (import of {package}"
        " halted; None in sys.modules). Install it on every worker: pip install"
        f" 'CHECKOUT[{extra}]', where CHECKOUT is the folder of Fulmen's source."
        for package, extra in (("psycopg", "postgres"), ("redis", "redis"))
    ]


def test_no_client_is_imported_before_a_map_of_its_kind_is_made():
    code = "import sys, fulmen.transactional; print({'psycopg', 'redis'} & set(sys.modules))"
    assert run(code) == ["set()"]


def test_other_errors_are_passed_on():
    with pytest.raises(ZeroDivisionError), needs("map 'counts'", "postgres"):
        raise ZeroDivisionError
