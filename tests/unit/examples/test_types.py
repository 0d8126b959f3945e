"""The examples, checked as strictly as authors check their own code."""

import subprocess
import sys

from support.docs.pages import ROOT


def test_examples_are_typed(tmp_path):
    # Folders of examples are no packages, and some modules of different folders have one name.
    files = sorted((ROOT / "examples").glob("*/*.py"))
    names = [file.name for file in files]
    for file in files:
        is_alone = names.count(file.name) == 1
        name = file.name if is_alone else f"{file.parent.name}_{file.name}".replace("-", "_")
        (tmp_path / name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-pyarrow.*]\nignore_missing_imports = true\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"Success: no issues found in {len(files)} source files\n"
