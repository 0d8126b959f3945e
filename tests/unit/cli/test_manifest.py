"""`fulmen manifest`: the file that `fulmen run` takes, as a cluster takes it."""

import re

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.main import main
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.cli_runs import CODE

DOCUMENT = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: letters, labels: {team: blue}}
spec:
  code: {folder: code}
  spouts:
    - {name: letters, class: letters.Letters}
"""


def written(folder, document=DOCUMENT):
    (folder / "code").mkdir()
    (folder / "code" / "letters.py").write_text(CODE)
    file = folder / "topology.yaml"
    file.write_text(document)
    return file


def invoke(*args):
    return CliRunner().invoke(main, ["manifest", *map(str, args)])


def source_of(result):
    """The ConfigMap that is printed before the topology."""
    source, _ = yaml.safe_load_all(result.stdout)
    return source


def test_the_code_is_in_the_resource_and_nothing_else_changes(tmp_path):
    result = invoke(written(tmp_path), "--inline")
    assert result.exit_code == 0, result.output
    found = yaml.safe_load(result.stdout)
    assert found["spec"].pop("code") == {"files": {"letters.py": CODE}}
    expected = yaml.safe_load(DOCUMENT)
    del expected["spec"]["code"]
    assert found == expected
    parse(parse_yaml(result.stdout))


@pytest.mark.parametrize("option", [[], ["--config-map"]], ids=["by-default", "if-asked-for"])
def test_code_in_a_config_map_that_the_topology_names(tmp_path, option):
    result = invoke(written(tmp_path), *option, "--set", "metadata.namespace=blue")
    assert result.exit_code == 0, result.output
    source, topology = yaml.safe_load_all(result.stdout)
    assert source == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": source["metadata"]["name"], "namespace": "blue"},
        "data": {"letters.py": CODE},
        "immutable": True,
    }
    assert re.fullmatch("letters-source-[0-9a-f]{10}", source["metadata"]["name"])
    assert topology["spec"]["code"] == {"configMap": source["metadata"]["name"]}
    parse(topology)


def test_other_code_has_another_config_map(tmp_path):
    file = written(tmp_path)

    def name(*args):
        result = invoke(file, *args)
        assert result.exit_code == 0, result.output
        source, topology = yaml.safe_load_all(result.stdout)
        assert topology["spec"]["code"] == {"configMap": source["metadata"]["name"]}
        return source["metadata"]["name"]

    first = name()
    assert name("--set", "spec.workers=2") == first
    (tmp_path / "code" / "letters.py").write_text(CODE + "# better\n")
    assert name() != first


def test_tests_beside_the_code_are_left_out(tmp_path):
    file = written(tmp_path)
    for name in ("test_letters.py", "letters_test.py", "conftest.py"):
        (tmp_path / "code" / name).write_text("import pytest\n")
    result = invoke(file)
    assert [*source_of(result)["data"]] == ["letters.py"]
    assert result.stderr == ""


def test_schemas_of_avro_beside_the_code_are_taken_along(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "order.avsc").write_text('"string"')
    result = invoke(file)
    assert source_of(result)["data"] == {"letters.py": CODE, "order.avsc": '"string"'}
    assert result.stderr == ""


def test_values_can_be_set(tmp_path):
    result = invoke(written(tmp_path), "--set", "spec.workers=3")
    _, topology = yaml.safe_load_all(result.stdout)
    assert topology["spec"]["workers"] == 3


def test_a_topology_whose_code_is_in_its_image_stays_as_it_is(tmp_path):
    document = DOCUMENT.replace("  code: {folder: code}\n", "").replace(
        "letters.Letters", "fulmen.testing.ListSpout"
    )
    result = invoke(written(tmp_path, document))
    found = yaml.safe_load(result.stdout)
    assert not {"code", "restartNonce"} & found["spec"].keys(), result.output


def test_mistakes_end_the_manifest_command(tmp_path):
    result = invoke(written(tmp_path, DOCUMENT.replace("letters.Letters", "letters.Leters")))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Did you mean 'Letters'?" in result.stderr


def test_files_that_are_left_out_are_told(tmp_path):
    file = written(tmp_path)
    code = tmp_path / "code"
    for name in ("words.txt", ".gitignore", "README.md"):
        (code / name).touch()
    (code / "run").touch(mode=0o755)
    (code / ".#letters.py").symlink_to("someone@somewhere")  # as editors make them
    for name in ("data", "__pycache__"):
        (code / name).mkdir()
    result = invoke(file)
    assert result.exit_code == 0
    assert result.stderr == (
        f"warning: only Python files are taken along, so these of '{code}' will be missing:"
        " data/, words.txt. If the code needs them, put the code into an image of your own instead,"
        " FROM Fulmen's, and leave spec.code out.\n"
    )
    assert [*source_of(result)["data"]] == ["letters.py"]


def test_a_file_that_can_not_be_read(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "more.py").symlink_to("nowhere")
    result = invoke(file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: '{tmp_path / 'code' / 'more.py'}' can't be read: No such file or directory.\n"
    )


def test_the_topologys_own_file_is_not_missing(tmp_path):
    file = written(tmp_path, DOCUMENT.replace("folder: code", "folder: ."))
    file.rename(tmp_path / "code" / "topology.yaml")
    result = invoke(tmp_path / "code" / "topology.yaml")
    assert (result.exit_code, result.stderr) == (0, "")


def test_settings_that_pods_decide_are_refused(tmp_path):
    conf = "  spark: {conf: {spark.executor.memory: 2g}}\n  spouts:"
    result = invoke(written(tmp_path, DOCUMENT.replace("  spouts:", conf)))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: spec.spark.conf[spark.executor.memory]: on Kubernetes 'spark.executor.memory' is"
        " decided by Fulmen, or by a field of the resource. Write spec.worker.resources: {limits:"
        " {memory: 2Gi}}.\n"
    )


@pytest.mark.parametrize("package", ["parts", "letters"])
def test_packages_cannot_be_inline(tmp_path, package):
    file = written(tmp_path)
    folder = tmp_path / "code" / package
    folder.mkdir()
    (folder / "__init__.py").touch()
    if package == "letters":  # there is nothing else
        (tmp_path / "code" / "letters.py").rename(folder / "__init__.py")
    result = invoke(file)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: the folder '{tmp_path}/code' has a package, '{package}', but folders can't be"
        " taken along: put the code into an image of your own instead, FROM Fulmen's, and leave"
        " spec.code out.\n"
    )


def test_too_much_code(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "more.py").write_text("#" * 128 * 1024)
    size = 128 * 1024 + len(CODE.encode())
    result = invoke(file)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: the Python files in '{tmp_path}/code' have {size:,} bytes in all, but at most"
        " 131,072 can be put into the manifest. Make a ConfigMap of them (kubectl create configmap"
        f" NAME --from-file '{tmp_path}/code') and name it in spec.code.configMap, or put the"
        " code into an image of your own instead, FROM Fulmen's, and leave spec.code out.\n"
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a b.py"], "files has the key 'a b.py', which can't be the name of a file"),
        ([f"more_{n}.py" for n in range(64)], "files has 65 entries, but at most 64 are allowed"),
    ],
)
def test_files_that_no_resource_can_hold(tmp_path, names, message):
    file = written(tmp_path)
    for name in names:
        (tmp_path / "code" / name).touch()
    result = invoke(file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: the Python files in '{tmp_path}/code' can't be put into the manifest: {message}."
        " Rename or remove some, or put the code into an image of your own instead, FROM"
        " Fulmen's, and leave spec.code out.\n"
    )


def test_a_file_that_is_not_text(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "latin.py").write_bytes(b"# \xe9")
    result = invoke(file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: '{tmp_path}/code/latin.py' is not text in UTF-8: byte 2 is wrong.\n"
    )
