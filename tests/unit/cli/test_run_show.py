"""`fulmen run --show`: rows of streams on standard output."""

import json

import pytest

from support.cli.cli_runs import write_letters


def test_rows_are_shown_as_lines_of_json_and_the_rest_is_on_stderr(fulmen, tmp_path):
    file = write_letters(tmp_path)
    result = fulmen("run", file, "--in-process", "--until-drained", "--show", "letters")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert rows
    assert all(row.keys() == {"letter"} for row in rows)
    assert f"{2000 - len(rows):,} more rows are not shown.\n" in result.stderr
    assert "2,000 acked" in result.stderr


def test_rows_of_several_streams_are_told_apart(fulmen, tmp_path):
    file = write_letters(tmp_path)
    shown = ("--show", "letters:default", "--show", "letters")
    result = fulmen("run", file, "--in-process", "--until-drained", *shown)
    names = {line.partition(" ")[0] for line in result.stdout.splitlines()}
    assert names == {"letters:default"}


def test_fields_that_the_topology_hides_stay_hidden(fulmen, tmp_path):
    file = write_letters(tmp_path)
    hidden = ("--set", "spec.tap.mask=[letter]", "--show", "letters")
    result = fulmen("run", file, "--in-process", "--until-drained", *hidden)
    assert {json.loads(line)["letter"] for line in result.stdout.splitlines()} == {"***"}


@pytest.mark.parametrize(
    ("show", "message"),
    [
        ("leters", "there is no component 'leters'. Did you mean 'letters'?"),
        ("letters:x", "there is no stream of 'letters' 'x'. There are: __dead_letters, default."),
    ],
)
def test_what_is_not_there_is_told_before_anything_runs(fulmen, tmp_path, show, message):
    result = fulmen("run", write_letters(tmp_path), "--in-process", "--show", show)
    assert (result.exit_code, result.output) == (2, f"Error: --show: {message}\n")
