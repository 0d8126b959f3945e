"""`fulmen run`: what it refuses before anything runs, and topologies in Python."""

import pytest
import yaml

from support.cli.cli_runs import write_letters


@pytest.fixture
def refused(fulmen):
    """Runs in process, and gives the error message of a run that ended with 2."""

    def run(file, *options):
        result = fulmen("run", file, "--in-process", "--until-drained", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        return result.stderr

    return run


def test_all_mistakes_at_once(refused, tmp_path):
    file = write_letters(tmp_path, onEror="crash", ackers=-1)
    document = yaml.safe_load((tmp_path / file).read_text())
    document["spec"]["bolts"][0]["class"] = "letters.Cuont"
    document["spec"]["bolts"][0]["inputs"][0]["grouping"]["fields"] = ["lettr"]
    (tmp_path / file).write_text(yaml.safe_dump(document))
    assert refused(file) == (
        "Error: 4 problems:\n"
        "  1. spec.ackers: ackers is -1, but must be at least 0.\n"
        "  2. spec.onEror: there is no field 'onEror'. Did you mean 'onError'?\n"
        "  3. spec.bolts[0].class: bolt 'count': 'letters' has no class 'Cuont'. Did you mean "
        "'Count'?\n"
        "  4. spec.bolts[0].inputs[0].grouping.fields[0]: bolt 'count', input from 'letters': "
        "fields grouping on 'lettr', but stream 'default' declares ['letter']. Did you mean "
        "'letter'?\n"
    )


def test_no_such_file(refused):
    assert refused("nope.yaml") == (
        "Error: 'nope.yaml' can't be read: No such file or directory.\n"
    )


def test_classes_in_a_config_map(refused, tmp_path):
    file = write_letters(tmp_path, code={"configMap": "letters-code"})
    warning, error = refused(file).splitlines()
    assert warning.startswith("warning: spec.code.configMap: the classes are in ConfigMap")
    assert error == (
        "Error: spec.code.configMap: the classes are in ConfigMap 'letters-code' of a cluster. "
        "Name a folder with a copy of its files: --code-folder."
    )


def test_classes_in_a_config_map_of_which_there_is_a_copy(fulmen, tmp_path):
    file = write_letters(tmp_path, code={"configMap": "letters-code"})
    options = ["--in-process", "--until-drained", "--code-folder", "."]
    assert fulmen("run", file, *options).exit_code == 0


def test_warnings_are_shown(fulmen, tmp_path):
    file = write_letters(tmp_path)
    options = ["--in-process", "--until-drained", "--set", "spec.bolts[count].numTasks=1"]
    result = fulmen("run", file, *options)
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "warning: spec.bolts[0].parallelism: bolt 'count': parallelism is 2, but there is only "
        "1 task: it runs with 1 executor."
    )


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        ("", "the checkpoint is empty text: name a folder or a URI."),
        ("~nosuchuser/kept", "'~nosuchuser/kept': Could not determine home directory."),
        (
            "ftp://host/folder",
            "checkpoint ftp://host/folder: there is no store of kind 'ftp'. There are file, s3, "
            "gs, az and memory.",
        ),
        (
            "s3://key:secret@bucket/x",
            "checkpoint s3://…: a URI is shown in logs and in the topology's status, so "
            "it must hold no user and no password. Leave them out, and set the environment "
            "variables that the store's own tools read (AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY for s3): on Kubernetes from a Secret, in env of driver and "
            "worker.",
        ),
    ],
)
def test_a_checkpoint_that_can_not_be(refused, tmp_path, checkpoint, message):
    file = write_letters(tmp_path)
    assert refused(file, "--checkpoint", checkpoint) == f"Error: {message}\n"


def test_a_checkpoint_in_memory_is_for_one_process(fulmen, tmp_path):
    file = write_letters(tmp_path)
    result = fulmen("run", file, "--checkpoint", "memory://letters")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --checkpoint: memory://letters is the memory of one process, but each worker is a "
        "process of its own. Use a folder, or --in-process.\n",
    )


@pytest.mark.parametrize(
    "options",
    [["--workers", "0"], ["--for", "-1"], ["--for", "soon"], ["--for", "nan"], ["--for", "inf"]],
)
def test_options_that_are_no_numbers(refused, tmp_path, options):
    assert "Error: Invalid value for" in refused(write_letters(tmp_path), *options)


# ---- topologies in Python ------------------------------------------------------------------------

BUILDER = """
from fulmen import TopologyBuilder
from letters import Count, Letters

topology = TopologyBuilder(name="in-python", workers=2)
topology.set_spout("letters", Letters, 2).set_config({"count": 20})
topology.set_bolt("count", Count, 2).fields_grouping("letters", ["letter"])
"""


@pytest.fixture
def in_python(fulmen, tmp_path):
    """Runs the topology of a Python file in a folder of its own: (exit code, stdout, stderr)."""

    def run(text, *options, name="topology.py"):
        folder = tmp_path / "in-python"
        folder.mkdir()
        write_letters(folder)
        (folder / name).write_text(text)
        options = ["--in-process", "--until-drained", *options]
        result = fulmen("run", f"in-python/{name}", *options)
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.parametrize("ending", ["", "topology = topology.build()\n"])
def test_a_topology_in_python(in_python, ending):
    code, stdout, _ = in_python(BUILDER + ending)
    assert code == 0
    assert stdout.startswith("in-python: drained after ")
    assert "trees        40 acked, 0 failed" in stdout


def test_values_of_a_topology_in_python_can_be_set(in_python):
    code, stdout, _ = in_python(BUILDER, "--set", "spec.spouts[letters].config.count=3")
    assert code == 0
    assert "trees        6 acked, 0 failed" in stdout


def test_what_the_authors_module_prints_is_no_part_of_our_output(in_python):
    code, stdout, stderr = in_python(f"print('hello')\n{BUILDER}")
    assert code == 0
    assert stdout.startswith("in-python: drained after ")
    assert stderr.startswith("hello\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "x = 1",
            "'in-python/topology.py' has nothing by the name 'topology' at module level. Write "
            "topology = TopologyBuilder(name=...), and then its spouts and bolts; or "
            "topology = Streams(name), and then its sources and steps.",
            id="nothing",
        ),
        pytest.param(
            "topology = {}",
            "'in-python/topology.py' has an object of the type dict by the name 'topology' at "
            "module level. Write topology = TopologyBuilder(name=...), and then its spouts and "
            "bolts; or topology = Streams(name), and then its sources and steps.",
            id="something-else",
        ),
        pytest.param(
            "import no_such_thing",
            "'in-python/topology.py' can't be imported: ModuleNotFoundError: No module named "
            "'no_such_thing' (topology.py, line 1). If 'no_such_thing' is of a package, install it;"
            " for a cluster, name the package in requirements.txt: fulmen manifest FILE --wheels"
            " takes it along.",
            id="import-fails",
        ),
        pytest.param(
            "\ndef f(:",
            "'in-python/topology.py' can't be imported: SyntaxError: invalid syntax (topology.py, "
            "line 2).",
            id="not-python",
        ),
    ],
)
def test_python_files_without_a_topology(in_python, text, message):
    assert in_python(text) == (2, "", f"Error: {message}\n")


def test_a_python_file_that_can_not_be_a_module(in_python):
    assert in_python(BUILDER, name="word-count.py") == (
        2,
        "",
        "Error: 'word-count' is not the name of a Python module. Rename the file: workers import "
        "it as a module.\n",
    )


def test_a_python_file_with_the_name_of_another_module(in_python):
    assert in_python(BUILDER, name="json.py") == (
        2,
        "",
        "Error: json.py has the name of a module of Python's own or of an installed package, which "
        "is imported instead of it. Rename the file.\n",
    )


def test_a_package_with_the_name_of_another_module(fulmen, tmp_path):
    write_letters(tmp_path)
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").touch()
    result = fulmen("validate", "letters.yaml", "--set", "spec.spouts[letters].class=json.parts.S")
    assert "json/__init__.py has the name of a module of Python's own" in result.stderr
    assert "Rename the folder." in result.stderr


def test_a_python_file_that_is_not_there(refused):
    assert refused("nope.py") == "Error: 'nope.py' can't be read: there is no such file.\n"


def test_validate_and_plan_take_python_files_too(fulmen, tmp_path):
    write_letters(tmp_path)
    (tmp_path / "topology.py").write_text(BUILDER)
    assert fulmen("validate", "topology.py").stdout == (
        "topology.py: topology 'in-python' is valid: 1 spout, 1 bolt, 6 tasks, 2 workers\n"
    )
    assert fulmen("plan", "topology.py").exit_code == 0
