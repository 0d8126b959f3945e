"""The scripts of the project as modules."""

import importlib.util
import sys

from support.docs.pages import ROOT


def script(name):
    """The script scripts/NAME.py, imported."""
    folder = str(ROOT / "scripts")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
