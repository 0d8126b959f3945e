"""Each example does in one process what its README says that it does on Spark."""

import re
import shutil
from pathlib import Path

import pytest

from support.docs.examples import EXAMPLES, NAMES, commands, linked_examples
from support.docs.pages import ROOT, links
from support.docs.shown_commands import output_of

BY_ITSELF = [name for name in NAMES if name not in ("http-lookup", "reach")]
"""Those whose commands run one after another."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Puts an example into a folder of its own, which becomes the current one."""

    def use(name):
        folder = shutil.copytree(EXAMPLES / name, tmp_path / name)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        return folder

    return use


OPTIONS = {"join": ["--set", "spec.bolts[join].tickSeconds=0.1"]}  # a unit test does not wait


@pytest.mark.parametrize("name", BY_ITSELF)
def test_the_output_is_that_of_the_readme(name, folder):
    folder(name)
    for line, output in commands(name):
        assert output_of(line, OPTIONS.get(name, [])) == output


def test_every_example_is_in_the_table():
    folders = sorted(path.parent.name for path in EXAMPLES.glob("*/README.md"))
    assert linked_examples() == folders


@pytest.mark.parametrize("page", sorted(str(p.relative_to(ROOT)) for p in EXAMPLES.rglob("*.md")))
def test_links_lead_somewhere(page):
    for target in links(page):
        assert ((ROOT / page).parent / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_the_code_of_an_example_is_short(name):
    lines = sum(
        len(re.findall(r"\S.*\n", p.read_text())) for p in Path(EXAMPLES, name).glob("*.py")
    )
    assert lines < 120
