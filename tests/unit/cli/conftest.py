"""A topology's file, and the command."""

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.main import main
from support.cli.documents import word_count
from support.cli.fake_kubectl import FakeKubectl


@pytest.fixture
def fulmen(tmp_path, monkeypatch):
    """Runs `fulmen` with arguments, and what is typed, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def call(*arguments, typed=None):
        return CliRunner().invoke(main, arguments, input=typed, prog_name="fulmen")

    return call


@pytest.fixture
def write(tmp_path):
    """Writes the word count, with some values changed, to topology.yaml."""

    def write(changes=None):
        (tmp_path / "topology.yaml").write_text(yaml.safe_dump(word_count(changes)))
        return "topology.yaml"

    return write


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A kubectl that answers what it is told to."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return FakeKubectl(folder, monkeypatch)
