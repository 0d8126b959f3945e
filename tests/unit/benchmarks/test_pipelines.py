"""The same pipeline in several ways: those of Fulmen give the rows that they should."""

import importlib
import re

import pytest
from benchmarks.pipelines.__main__ import (
    ALL,
    FORMS,
    PER_SECOND,
    clicks,
    expected,
    lines_of_code,
    written,
)

from fulmen.testing import run
from support.docs.pages import ROOT

ROWS = 700 * PER_SECOND
"""So that there is more than one window."""
OURS = sorted({form.file for form in ALL if form.arguments is not None})


@pytest.mark.parametrize("file", OURS)
def test_each_form_gives_the_same_rows(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FORMS)
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "a.jsonl").write_text("".join(f"{line}\n" for line in clicks(ROWS)))
    if file.endswith(".py"):
        module = importlib.import_module(file.removesuffix(".py"))
        run(module.shop.build() if hasattr(module, "shop") else module.topology)
    else:
        run(FORMS / file)
    assert written(tmp_path / "out") == expected(clicks(ROWS))


def test_the_page_says_how_long_each_form_is():
    page = (ROOT / "docs" / "performance.md").read_text()
    said = dict(re.findall(r"\(\.\./benchmarks/pipelines/forms/(.+?)\) \| (\d+) \|", page))
    assert said == {form.file: str(lines_of_code(FORMS / form.file)) for form in ALL}
