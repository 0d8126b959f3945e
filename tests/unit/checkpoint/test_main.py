"""`python -m fulmen.checkpoint`."""

import shutil
from pathlib import Path

import pytest

from fulmen.checkpoint.__main__ import main

DATA = Path(__file__).parent / "data" / "format-1"


@pytest.fixture
def checkpoint(tmp_path):
    shutil.copytree(DATA, tmp_path / "checkpoint")
    return str(tmp_path / "checkpoint")


def test_the_newest_state_is_described(checkpoint, capsys):
    assert main([checkpoint]) == 0
    assert capsys.readouterr().out == (
        f"checkpoint {checkpoint}: 4 commits, 1 state file\n"
        "topology 'word-count', commit 4, tag beef\n"
        "made by 'pod-b 17 2026-03-01T12:01:00Z', epoch 2, batch clock 1.500 s\n"
        "newest full manifest in commit 3\n"
        "sections: 'plan' of 14 bytes\n"
        "for this commit only: 'deliveries' of 0 bytes, 'inbox' of 1 byte\n"
        "task 'count/0'\n"
        "  'fields': 1 payload, 0 in files, from commit 4 to 4\n"
        "  'state.3': 2 payloads, 1 in files, from commit 2 to 4\n"
        "task 'count/é'\n"
        "  'fields': 1 payload, 0 in files, from commit 4 to 4\n"
    )


def test_an_older_state_is_described(checkpoint, capsys):
    assert main([checkpoint, "2"]) == 0
    output = capsys.readouterr().out
    assert "commit 2, tag f00d" in output
    assert "task 'gone/0'" in output


def test_a_place_where_nothing_was_committed(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"checkpoint {tmp_path}: 0 commits, 0 state files\nnothing was committed yet\n"
    )


def test_what_is_wrong_is_said(checkpoint, capsys):
    assert main([checkpoint, "9"]) == 1
    assert "there is no 'commits/00000000000000000009'" in capsys.readouterr().err
    assert main([checkpoint, "x"]) == 2
    assert capsys.readouterr().err == "usage: python -m fulmen.checkpoint URI [COMMIT]\n"
