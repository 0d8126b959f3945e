"""The topologies on the pages about connectors: valid as they stand, and planned."""

import re

import pytest
from click.testing import CliRunner

from fulmen.cli.main import main
from support.docs.pages import blocks, write_files


@pytest.mark.parametrize("block", blocks("docs/connectors", "yaml"), ids=str)
def test_topologies_on_pages_about_connectors_are_valid_and_planned(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(name, "redis://localhost")
    write_files(block.page, tmp_path)
    (tmp_path / "as-it-stands.yaml").write_text(block.text, encoding="utf-8")
    for command in ("validate", "plan"):
        result = CliRunner().invoke(main, [command, "as-it-stands.yaml"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
