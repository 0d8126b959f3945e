"""`fulmen validate`."""

import json

import pytest

from fulmen.topology.code.streamparse import import_cure
from support.cli.cli_runs import write_letters

BROKEN = {"spec.workers": 0, "spec.bolts.1.inputs.0.grouping.fields": ["wrod"]}
MESSAGE = """\
Error: 2 problems:
  1. spec.workers: workers is 0, but must be at least 1.
  2. spec.bolts[1].inputs[0].grouping.fields[0]: bolt 'count', input from 'split': fields grouping \
on 'wrod', but stream 'default' declares ['word']. Did you mean 'word'?
"""
NOT_THERE = "Error: 'nowhere.yaml' can't be read: No such file or directory.\n"


def test_a_valid_topology(fulmen, write):
    result = fulmen("validate", write())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "topology.yaml: topology 'word-count' is valid: 1 spout, 2 bolts, 9 tasks, 2 workers\n"
    )


def test_mistakes(fulmen, write):
    result = fulmen("validate", write(BROKEN))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", MESSAGE)


def test_a_file_that_is_not_there(fulmen):
    result = fulmen("validate", "nowhere.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", NOT_THERE)


def test_values_that_are_set(fulmen, write):
    field = "spec.bolts[count].inputs[0].grouping.fields[0]=word"
    fixes = ["--set", "spec.workers=1", "--set", field]
    assert fulmen("validate", write(BROKEN), *fixes).exit_code == 0
    result = fulmen("validate", write(), "--set", "spec.wrokers=1")
    assert result.stderr == (
        "Error: spec.wrokers: there is no field 'wrokers'. Did you mean 'workers'?\n"
    )


def test_warnings(fulmen, write):
    result = fulmen("validate", write({"spec.bolts.0.numTasks": 1}))
    assert result.exit_code == 0
    assert result.stderr == (
        "warning: spec.bolts[0].parallelism: bolt 'split': parallelism is 2, but there is only "
        "1 task: it runs with 1 executor.\n"
    )


def test_state_of_a_checkpoint_that_no_component_has(fulmen, write, tmp_path):
    file = write_letters(tmp_path, {"count": 13})
    run = ["run", file, "--in-process", "--until-drained", "--checkpoint", "kept"]
    assert fulmen(*run).exit_code == 0
    same = fulmen("validate", file, "--checkpoint", "kept")
    assert (same.exit_code, same.stderr) == (0, "")
    renamed = ["validate", file, "--set", "spec.bolts[count].name=cuont"]
    uri = f"spec.checkpoint.uri={(tmp_path / 'kept').as_uri()}"
    for options in (["--checkpoint", "kept"], ["--set", uri]):
        told = fulmen(*renamed, *options)
        assert told.exit_code == 0
        assert told.stderr.startswith(
            "warning: component 'count' is not in the topology, and the checkpoint keeps its state"
            " (2 tasks). If it was renamed"
        )
    problem = json.loads(fulmen(*renamed, "--set", uri, "--json").stdout)["problems"][0]
    assert problem["severity"] == "warning"
    assert fulmen("validate", file).stderr == ""


def test_json(fulmen, write):
    result = fulmen("validate", "--json", write(BROKEN))
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "valid": False,
        "problems": [
            {
                "path": "spec.workers",
                "message": "workers is 0, but must be at least 1",
                "cure": "",
                "severity": "error",
            },
            {
                "path": "spec.bolts[1].inputs[0].grouping.fields[0]",
                "message": "bolt 'count', input from 'split': fields grouping on 'wrod', but "
                "stream 'default' declares ['word']",
                "cure": "Did you mean 'word'?",
                "severity": "error",
            },
        ],
    }


def test_json_of_a_valid_topology_with_a_warning(fulmen, write):
    result = fulmen("validate", "--json", write({"spec.bolts.0.numTasks": 1}))
    content = json.loads(result.stdout)
    assert (result.exit_code, content["valid"]) == (0, True)
    assert [problem["severity"] for problem in content["problems"]] == ["warning"]


def test_json_of_a_file_that_is_not_there(fulmen):
    result = fulmen("validate", "--json", "nowhere.yaml")
    content = json.loads(result.stdout)
    assert (result.exit_code, content["valid"], len(content["problems"])) == (2, False, 1)


def test_json_of_python_that_can_not_be_imported(fulmen, tmp_path):
    (tmp_path / "no_topology.py").write_text("import no_such_module\n")
    result = fulmen("validate", "--json", "no_topology.py")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {
        "valid": False,
        "problems": [
            {
                "path": "",
                "message": "'no_topology.py' can't be imported: ModuleNotFoundError: No module "
                "named 'no_such_module' (no_topology.py, line 1)",
                "cure": import_cure("no_such_module"),
                "severity": "error",
            }
        ],
    }


def test_code_beside_the_file(fulmen, write, tmp_path):
    """A folder is relative to the file, and what its modules print is no part of the output."""
    (tmp_path / "counting.py").write_text(
        "from support.parts.components import Count\nprint('hello')\n"
    )
    write({"spec.code": {"folder": "."}, "spec.bolts.1.class": "counting.Count"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "topology.yaml").rename(tmp_path / "elsewhere" / "topology.yaml")
    assert fulmen("validate", "elsewhere/topology.yaml").exit_code == 2
    folder = ["--code-folder", "."]
    result = fulmen("validate", "--json", "elsewhere/topology.yaml", *folder)
    assert json.loads(result.stdout) == {"valid": True, "problems": []}
    assert result.stderr == "hello\n"


@pytest.mark.parametrize("value", ["[" * 5000, '"\\ud800"', "9" * 4000])
def test_a_value_that_no_document_can_hold_is_a_mistake_in_the_option(fulmen, write, value):
    result = fulmen("validate", "--json", write(), "--set", f"spec.config.a={value}")
    [problem] = json.loads(result.stdout)["problems"]
    assert (result.exit_code, problem["path"]) == (2, "spec.config.a")


def test_a_path_of_thousands_of_brackets_is_a_mistake_in_the_option(fulmen, write):
    result = fulmen("validate", write(), "--set", f"spec.config{'[a]' * 5000}=1")
    assert result.exit_code == 2
    assert "spec.config: the document is too large: lists and mappings are nested" in result.stderr


def test_a_null_character_in_an_environment_variable_is_a_mistake(fulmen, write):
    result = fulmen("validate", write({"spec.worker.env": [{"name": "A", "value": "a\0b"}]}))
    assert result.exit_code == 2
    assert "value has a null character, which no environment variable can hold" in result.stderr


def test_text_that_is_not_utf_8_in_an_option_is_told_in_json(fulmen, write):
    result = fulmen("validate", "--json", write(), "--set", "spec.workers=\udcff")
    assert (result.exit_code, json.loads(result.stdout)["valid"]) == (2, False)


def test_a_topology_in_python_is_imported_once(fulmen, tmp_path):
    (tmp_path / "counting.py").write_text(
        "from fulmen import TopologyBuilder\n"
        "from support.parts.components import Sentences\n"
        "class Mine(Sentences):\n    pass\n"
        "print('imported')\n"
        "topology = TopologyBuilder(name='a')\n"
        "topology.set_spout('mine', Mine)\n"
    )
    result = fulmen("validate", "counting.py")
    assert (result.exit_code, result.stderr) == (0, "imported\n")


def test_the_module_of_a_class_is_imported_once_by_a_command(fulmen, write, tmp_path):
    (tmp_path / "counting.py").write_text(
        "from support.parts.components import Count\nprint('hello')\n"
    )
    write({"spec.code": {"folder": "."}, "spec.bolts.1.class": "counting.Count"})
    for _ in range(2):  # and again by the next one, which may be another topology's
        result = fulmen("run", "topology.yaml", "--in-process", "--for", "0")
        assert (result.exit_code, result.output.count("hello\n")) == (0, 1)
