"""What importing the package does, and does not."""

import re
import subprocess
import sys
import tomllib

from fulmen.cli.main import ENGINES
from support.docs.pages import ROOT

PLACES = ["docs", "examples", "runtime", "operator", "charts"]
WARNED = "would install somebody else's"
ALL_OF_OPERATOR = """
import importlib, pkgutil, fulmen_operator
for module in pkgutil.walk_packages(fulmen_operator.__path__, "fulmen_operator."):
    importlib.import_module(module.name)
"""


def read(file):
    return tomllib.loads((ROOT / file).read_text(encoding="utf-8"))


def modules_loaded_by(code):
    """The modules that are loaded when this code has run."""
    code += "\nimport sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def loaded_by(code):
    """The packages that are loaded when this code has run."""
    return {name.partition(".")[0] for name in modules_loaded_by(code)}


def test_importing_fulmen_and_its_workers_loads_no_pyspark_and_nothing_that_few_topologies_need():
    loaded = modules_loaded_by("import fulmen.engine.worker.worker")
    assert "fulmen" in loaded
    assert not loaded & {"pyspark", "fulmen.windows", "fulmen.connectors.formats.options"}


def test_the_operator_needs_nothing_of_the_engine():
    loaded = loaded_by(ALL_OF_OPERATOR)
    assert {"kopf", "fulmen"} <= loaded
    assert loaded & ENGINES == {"prometheus_client"}  # which it names itself


def test_both_distributions_have_one_version():
    fulmen, operator = (read(f"{place}pyproject.toml")["project"] for place in ("", "operator/"))
    assert fulmen["version"] == operator["version"]
    assert f"fulmen=={fulmen['version']}" in operator["dependencies"]


def test_the_engine_is_what_the_command_line_says():
    project = read("pyproject.toml")["project"]
    names = {re.match(r"[\w-]+", line)[0] for line in project["optional-dependencies"]["engine"]}
    assert {name.replace("-", "_") for name in names} == ENGINES - {"py4j"}  # pyspark's


def test_no_place_says_that_a_package_index_has_fulmen():
    # Somebody else's package of that name would be installed.
    places = [ROOT / "README.md", *(path for name in PLACES for path in (ROOT / name).rglob("*.*"))]
    said = [
        line
        for path in places
        if path.suffix in (".md", ".py", ".yaml", ".txt", ".toml")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"pip install [^`]*\bfulmen(\[|$|`)", line)
    ]
    assert len(places) > 500
    assert [line for line in said if WARNED not in line] == []
