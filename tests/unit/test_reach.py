"""Which test files a change can reach, and which not."""

import grimp
import pytest

from support.docs.pages import ROOT
from support.suite import reach
from support.suite.changed_files import texts

TEST = "tests/unit/test_it.py"
FILES = {
    "runtime/fulmen/__init__.py": "from fulmen.api.bolts import Bolt\n",
    "runtime/fulmen/api/__init__.py": "",
    "runtime/fulmen/api/bolts.py": "from fulmen.limits import MOST\n",
    "runtime/fulmen/limits.py": "MOST = 3\n",
    "runtime/fulmen/__main__.py": "",
    "runtime/fulmen/alone.py": "",
    "runtime/fulmen/cli/__init__.py": "",
    "runtime/fulmen/cli/__main__.py": "",
    "runtime/fulmen/cli/main.py": "import importlib\nNAME = f'fulmen.cli.words.{1}'\n",
    "runtime/fulmen/cli/prefix.py": "PREFIX = 'fulmen.cli.words.'\n",
    "runtime/fulmen/cli/page.py": "PAGE = 'templates/page.html'\n",
    "runtime/fulmen/cli/templates/page.html": "",
    "runtime/fulmen/cli/words/__init__.py": "",
    "runtime/fulmen/cli/words/run.py": "",
    "runtime/fulmen/py.typed": "",
    "runtime/fulmen/entrypoint": "#!/bin/sh\npython3 -m fulmen.alone\n",
    "tests/conftest.py": "from support import seeds\n",
    "tests/support/seeds.py": "",
    "tests/support/lines.py": "from support import more\n",
    "tests/support/more.py": "",
    "tests/support/numbers.json": "",
    "tests/data/rows.csv": "",
    "tests/engine/test_spark.py": "from support import spark\nPATH = 'runtime/fulmen/entrypoint'\n",
    "tests/support/spark.py": "",
    "tests/unit/other/conftest.py": "",
    "docs/guide/api.md": "`fulmen.alone.Alone` is alone.\n",
    "docs/index.md": "",
    "examples/words/words.py": "import nearby\nNAME = 'docs'\n",
    "examples/words/nearby.py": "",
    "examples/words/topology.yaml": "class: words.Split\n",
    "scripts/site.py": "import tables\n",
    "scripts/tables.py": "",
    "benchmarks/topologies/q1.yaml": "",
    "benchmarks/queries.py": "FOLDER = PARENT / 'topologies'\n",
    "README.md": "",
}


def is_reached(code, changed, **others):
    """Whether a change of one file reaches a test file with that code."""
    files = FILES | others | {TEST: code}
    return TEST in reach.reached_tests({changed}, files)


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("from fulmen.limits import MOST", "runtime/fulmen/limits.py"),
        ("from fulmen import limits", "runtime/fulmen/limits.py"),
        ("import fulmen.limits as of", "runtime/fulmen/limits.py"),
        ("def test_it():\n    import fulmen.alone", "runtime/fulmen/alone.py"),
        ("if TYPE_CHECKING:\n    from fulmen.alone import Alone", "runtime/fulmen/alone.py"),
        ("from fulmen.api import bolts", "runtime/fulmen/limits.py"),
        ("import fulmen.alone", "runtime/fulmen/__init__.py"),
        ("import fulmen.alone", "runtime/fulmen/api/bolts.py"),
        ("CLASS = 'fulmen.alone.Alone'", "runtime/fulmen/alone.py"),
        ("f'class: fulmen.alone.{1}'", "runtime/fulmen/alone.py"),
        ("CODE = 'from fulmen import (\\n    cli, alone)'", "runtime/fulmen/alone.py"),
        ("RUN = ['-m', 'fulmen']", "runtime/fulmen/__main__.py"),
        ("RUN = ['-m', 'fulmen.cli']", "runtime/fulmen/cli/__main__.py"),
        ("from fulmen.cli.main import main", "runtime/fulmen/cli/words/run.py"),
        ("CLASS = f'fulmen.cli.words.{1}'", "runtime/fulmen/cli/words/run.py"),
        ("YAML = f'class: fulmen.cli.words.{1}'", "runtime/fulmen/cli/words/run.py"),
        ("import fulmen.cli\nlist(fulmen.cli.__path__)", "runtime/fulmen/cli/words/run.py"),
        ("from fulmen.cli.page import PAGE", "runtime/fulmen/cli/templates/page.html"),
        ("import fulmen.alone", "runtime/fulmen/py.typed"),
        ("from support.lines import line", "tests/support/more.py"),
        ("from support import lines", "tests/support/more.py"),
        ("", "tests/support/seeds.py"),
        ("", TEST),
        ("ROWS = TESTS / 'data' / 'rows.csv'", "tests/data/rows.csv"),
        ("ROWS = 'tests/data/rows.csv'", "tests/data/rows.csv"),
        ("import support.more\nNUMBERS = 'numbers.json'", "tests/unit/numbers.json"),
        ("(ROOT / 'docs').rglob('*.md')", "docs/guide/api.md"),
        ("PAGES = 'docs/guide/*.md'", "docs/guide/api.md"),
        ("PAGE = f'docs/{name}.md'", "docs/guide/api.md"),
        ("SAID = 'see docs/guide/none.md'", "docs/guide/api.md"),
        ("DOCS = 'docs'", "runtime/fulmen/alone.py"),
        ("ROOT / 'README.md'", "README.md"),
        ("RUN = 'fulmen run examples/words/topology.yaml'", "examples/words/nearby.py"),
        ("SITE = 'scripts/site.py'", "scripts/tables.py"),
        ("from benchmarks import queries", "benchmarks/topologies/q1.yaml"),
        ("from fulmen import gone", "runtime/fulmen/gone.py"),
        ("ROOT / 'runtime/fulmen/entrypoint'", "runtime/fulmen/alone.py"),
    ],
)
def test_what_a_test_file_imports_or_names_reaches_it(code, changed):
    others = {"tests/unit/numbers.json": ""}
    assert is_reached(code, changed, **others)


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("import fulmen.limits", "runtime/fulmen/alone.py"),
        ('"""Not of `fulmen.alone`."""', "runtime/fulmen/alone.py"),
        ("def test_it():\n    '''Not of fulmen.alone.'''", "runtime/fulmen/alone.py"),
        ("import fulmen.cli.prefix", "runtime/fulmen/cli/words/run.py"),
        ("import fulmen.alone", "runtime/fulmen/entrypoint"),
        ("import fulmen.cli.words", "runtime/fulmen/cli/templates/page.html"),
        ("MARK = 'engine'", "tests/engine/test_spark.py"),
        ("MARK = 'engine'", "tests/support/spark.py"),
        ("from support import seeds", "tests/support/more.py"),
        ("", "tests/unit/other/conftest.py"),
        ("SAID = 'read the docs'", "docs/index.md"),
        ("PAGE = 'docs/index.md'", "docs/guide/api.md"),
        ("PROGRAM = 'examples/words/words.py'", "docs/index.md"),
        ("OTHER = 'tests/unit/other/test_other.py'", "runtime/fulmen/limits.py"),
    ],
)
def test_what_it_neither_imports_nor_names_does_not_reach_it(code, changed):
    others = {"tests/unit/other/test_other.py": "import fulmen.limits"}
    assert not is_reached(code, changed, **others)


@pytest.mark.parametrize(
    "changed",
    [
        "pyproject.toml",
        "Makefile",
        "tests/support/suite/reach.py",
        ".gitattributes",
        "scripts/none.sh",
    ],
)
def test_what_concerns_all_or_is_named_by_nobody_reaches_every_test(changed):
    assert reach.reached_tests({changed, "docs/index.md"}, FILES) is None


@pytest.mark.parametrize(
    "changed", ["tests/engine/test_spark.py", "tests/support/spark.py", "changelog.d/new.fixed.md"]
)
def test_tests_of_other_folders_and_what_only_people_read_reach_no_unit_test(changed):
    assert reach.reached_tests({changed}, FILES | {TEST: ""}) == set()


def test_a_test_file_that_is_gone_is_not_run():
    assert reach.reached_tests({"tests/unit/test_gone.py"}, FILES) == set()


def test_code_that_is_no_python_reaches_those_that_import_it():
    broken = {"runtime/fulmen/alone.py": "def ("}
    assert is_reached("import fulmen.alone", "runtime/fulmen/alone.py", **broken)


def test_what_is_known_of_a_text_is_used_again_and_of_another_text_is_not():
    known = {}
    other = {"runtime/fulmen/other.py": "import fulmen.alone"}
    files = other | {TEST: "import fulmen.alone", "runtime/fulmen/alone.py": ""}
    changed = {"runtime/fulmen/alone.py"}
    assert reach.reached_tests(changed, files, known) == {TEST}
    before = dict(known)
    assert reach.reached_tests(changed, files, known) == {TEST}
    assert known == before
    assert reach.reached_tests(changed, files | {TEST: "import json"}, known) == set()
    assert len(known) == 3


def test_every_import_that_the_linter_of_layers_finds_is_found():
    """In the smaller of the packages."""
    files = {path: text for path, text in texts(ROOT).items() if path.startswith("operator/")}
    graph = grimp.build_graph("fulmen_operator", cache_dir=None)
    paths = {
        path.removeprefix("operator/")
        .removesuffix(".py")
        .removesuffix("/__init__")
        .replace("/", "."): path
        for path in files
    }
    users = reach.users_of(files)
    assert len(graph.modules) > 40
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            assert paths[module] in users[paths[imported]], (module, imported)
