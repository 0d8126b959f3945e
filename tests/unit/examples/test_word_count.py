"""The word count in examples/, without Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fulmen.cli.main import main

EXAMPLE = Path(__file__).parents[3] / "examples" / "word-count"


@pytest.fixture
def texts(tmp_path):
    """A folder with text files, and some that are left out."""
    for name, text in {
        "a.py": "def f(x):\n    return x\n",
        "b/c.txt": "X is not F.\n" * 40 + "no newline at the end",
        "b/empty.txt": "",
        "b/latin.txt": "caf\xe9 x",
        "site-packages/d.py": "installed",
        "e.bin": "binary",
    }.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return tmp_path / "texts"


@pytest.fixture
def run(tmp_path, monkeypatch, texts):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    checkpoint = f"{(tmp_path / 'kept').as_uri()}?fsync=false"

    def run(*options):
        arguments = ["run", str(EXAMPLE / "topology.yaml"), "--in-process", "--until-drained"]
        arguments += ["--checkpoint", checkpoint]
        arguments += ["--set", f"spec.spouts[lines].config.path={texts}", *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        arguments = ["state", "get", checkpoint, "count", "-o", "json"]
        return result.stdout, CliRunner().invoke(main, arguments).stdout

    return run


def verify(counted, folder):
    command = [sys.executable, str(EXAMPLE / "verify.py"), str(folder)]
    return subprocess.run(command, input=counted, capture_output=True, text=True, check=False)


def test_the_counts_are_those_of_plain_python(run, texts):
    stdout, counted = run()
    assert "trees        44 acked, 0 failed" in stdout  # lines
    result = verify(counted, texts)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "All 12 words were counted right, 172 in all.\n"


def test_wrong_counts_are_found(run, texts):
    _, counted = run()
    entries = [entry for entry in json.loads(counted) if entry["key"] != "not"]
    entries[0]["value"] += 1
    result = verify(json.dumps(entries), texts)
    assert (result.returncode, result.stderr) == (1, "2 of 12 words differ\n")
    assert "'not' was counted 0 times, but is there 40\n" in result.stdout
