"""What importing the package does, and does not."""

import re
import subprocess
import sys
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"
ALL_OF_OPERATOR = """
import importlib, pkgutil, fulmen_operator
for module in pkgutil.walk_packages(fulmen_operator.__path__, "fulmen_operator."):
    importlib.import_module(module.name)
"""


def loaded_by(code):
    """The packages that are loaded when this code has run."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_fulmen_loads_no_pyspark():
    assert "pyspark" not in loaded_by("import fulmen")


def test_the_operator_needs_nothing_that_its_image_leaves_out():
    (left_out,) = re.findall(r"--extra operator --without ([\w ]+)", DOCKERFILE.read_text())
    loaded = loaded_by(ALL_OF_OPERATOR)
    assert "kopf" in loaded
    assert loaded.isdisjoint(left_out.split())
    assert "pyarrow" in left_out
