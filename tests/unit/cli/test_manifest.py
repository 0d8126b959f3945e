"""`fulmen manifest`: the file that `fulmen run` takes, as a cluster takes it."""

import base64
import errno
import hashlib
import os
import random
import re
import sys
import tarfile

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.commands import manifest
from fulmen.cli.main import main
from fulmen.topology.code.packing import unpack, unpacked
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.cli.cli_runs import CODE

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


def project(tmp_path):
    """A project with a package, data in it and beside it, and what no cluster needs."""
    code = tmp_path / "code"
    for name, content in {
        "shop/__init__.py": "",
        "shop/prices.csv": "a,1\n",
        "shop/logo.bin": b"\xff\x00",
        "words.txt": "one two",
        "README.md": "About",
        "state/0001.bin": "a checkpoint",
        "tests/test_shop.py": "",
        "shop/test_it.py": "",
        "__pycache__/letters.pyc": "",
        ".git/HEAD": "",
        "env/pyvenv.cfg": "",
        "env/lib/a.py": "",
        "conda/conda-meta/history": "",
        "conda/lib/a.py": "",
        "node_modules/gyp/gyp.py": "",
        "shop/tool": "#!/bin/sh",
    }.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (code / "run").touch(mode=0o755)
    (code / "shop" / "tool").chmod(0o711)
    (code / ".#letters.py").symlink_to("someone@somewhere")  # as editors make them
    (code / "shop" / "loop").symlink_to("..")
    return code


def archive_of(result):
    [(name, text)] = source_of(result)["binaryData"].items()
    assert name == "code.tar.gz"
    return base64.b64decode(text)


def test_links_that_lead_out_of_the_project_are_refused_unless_they_are_named(tmp_path):
    file, code = written(tmp_path), project(tmp_path)
    (tmp_path / "credentials").write_text("secret")
    (tmp_path / "common").mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / "common" / name).touch()
    (code / "shop" / "settings.ini").symlink_to(tmp_path / "credentials")
    (code / "common").symlink_to("../common")
    (code / "shop" / "env.ini").symlink_to("../.env")  # hidden files are never taken along
    (code / "shop" / "more.py").symlink_to("../letters.py")
    (code / ".env").touch()
    for more in ([], ["--include", "shop/*"], ["--archive", tmp_path / "a.tar.gz"]):
        result = invoke(file, *more)
        assert (result.exit_code, result.stdout, result.stderr) == (
            2,
            "",
            f"Error: links in the folder '{code}' lead out of it, or to hidden files: common ->"
            f" {tmp_path}/common, shop/env.ini -> {code}/.env, shop/settings.ini ->"
            f" {tmp_path}/credentials. What they lead to would be in the ConfigMap or archive."
            " Remove them, or name those that are meant: --include common.\n",
        )
    (code / "shop" / "env.ini").unlink()
    result = invoke(file, "--include", "common", "--include", "shop/settings.ini")
    assert result.exit_code == 0, result.output
    names = unpacked_names(result, tmp_path)
    assert {"common/a.py", "common/b.py", "shop/settings.ini", "shop/more.py"} <= {*names}


def test_packages_and_data_are_packed_and_what_no_cluster_needs_is_left_out(tmp_path):
    file = written(tmp_path)
    project(tmp_path)
    result = invoke(file)
    assert (result.exit_code, result.stderr) == (
        0,
        f"warning: only Python files and packages are taken along, so these of '{tmp_path}/code'"
        " will be missing: state/, words.txt. If the code needs some of them, add --include"
        " NAME.\n",
    )
    assert unpacked_names(result, tmp_path) == [
        *("letters.py", "shop/__init__.py", "shop/logo.bin", "shop/prices.csv", "shop/tool")
    ]
    folder = tmp_path / "unpacked"
    executable = [
        path.name for path in folder.rglob("*") if path.is_file() and os.access(path, os.X_OK)
    ]
    assert executable == ["tool"]
    assert (folder / "shop" / "logo.bin").read_bytes() == b"\xff\x00"
    _, topology = yaml.safe_load_all(result.stdout)
    assert topology["spec"]["code"] == {"configMap": source_of(result)["metadata"]["name"]}


def test_the_file_that_the_manifest_is_written_to_is_no_part_of_the_project(tmp_path, monkeypatch):
    file = written(tmp_path)
    with (tmp_path / "code" / "out.yaml").open("w") as output:
        monkeypatch.setattr(sys, "__stdout__", output)
        result = invoke(file)
        included = invoke(file, "--include", "*.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "out.yaml" not in included.stdout


def unpacked_names(result, tmp_path):
    """The names of all files, as pods have them in the folder `unpacked`."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "code.tar.gz").write_bytes(archive_of(result))
    folder = unpacked(mounted, tmp_path / "unpacked")
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_more_is_taken_along_by_name(tmp_path):
    file = written(tmp_path)
    project(tmp_path)
    result = invoke(file, "--include", "words.txt", "--include", "state/*.bin")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {"words.txt", "state/0001.bin"} < set(unpacked_names(result, tmp_path))


def test_what_is_hidden_is_never_taken_along(tmp_path):
    file = written(tmp_path)
    (project(tmp_path) / ".env").write_text("PASSWORD=secret")
    result = invoke(file, "--include", "*", "--include", "env/**/*")
    assert result.exit_code == 0
    names = unpacked_names(result, tmp_path)
    assert [name for name in names if re.search(r"(^|/)(\.|__pycache__|test_)", name)] == []
    assert "words.txt" in names
    result = invoke(file, "--include", ".env")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--include: '.env' means only what is never taken along" in result.stderr


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("../*", "leads out of the folder"), ("/etc/*", "leads out"), ("nothing", "there is no")],
)
def test_what_can_not_be_taken_along(tmp_path, pattern, words):
    result = invoke(written(tmp_path), "--include", pattern)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Error: --include: {'there is no ' if words == 'there is no' else repr(pattern)}" in (
        result.stderr
    )
    assert words in result.stderr


def test_the_same_project_is_the_same_archive_wherever_and_whenever(tmp_path):
    printed = []
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        file = written(tmp_path / place)
        os.utime(project(tmp_path / place) / "shop" / "prices.csv", (len(place), 0))
        printed.append(invoke(file).stdout)
    assert printed[0] == printed[1]
    (tmp_path / "there" / "code" / "shop" / "prices.csv").write_text("a,2\n")
    assert invoke(file).stdout != printed[0]


def test_packages_are_no_part_of_the_topology_itself(tmp_path):
    file = written(tmp_path)
    project(tmp_path)
    result = invoke(file, "--inline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave --inline out." in result.stderr


def test_a_large_archive_is_applied_by_the_server(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "noise").write_bytes(random.Random(1).randbytes(300_000))
    result = invoke(file, "--include", "noise")
    assert result.exit_code == 0
    assert "kubectl apply --server-side" in result.stderr


def test_an_archive_that_one_config_map_has_no_room_for_is_put_into_several(tmp_path):
    file = written(tmp_path)
    noise = random.Random(1).randbytes(1_000_000)
    (tmp_path / "code" / "noise").write_bytes(noise)
    result = invoke(file, "--include", "noise", "--set", "metadata.namespace=blue")
    assert result.exit_code == 0, result.output
    assert "kubectl apply --server-side" in result.stderr
    *sources, topology = yaml.safe_load_all(result.stdout)
    code = topology["spec"]["code"]
    assert [source["metadata"] for source in sources] == [
        {"name": f"letters-source-{code['sha256'][:10]}-{n}", "namespace": "blue"} for n in (1, 2)
    ]
    assert code["configMaps"] == [source["metadata"]["name"] for source in sources]
    assert {source["immutable"] for source in sources} == {True}
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for source in sources:
        for name, part in source["binaryData"].items():
            (mounted / name).write_bytes(base64.b64decode(part))
    names = sorted(path.name for path in mounted.iterdir())
    assert names == ["code.tar.gz.1", "code.tar.gz.2"]
    content = [(mounted / name).read_bytes() for name in names]
    assert len(content[0]) == 921_600
    assert hashlib.sha256(b"".join(content)).hexdigest() == code["sha256"]
    folder = unpacked(mounted, tmp_path / "unpacked")
    assert (folder / "noise").read_bytes() == noise
    parse(topology)


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


def test_too_much_code(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "noise").write_bytes(random.Random(1).randbytes(3_700_000))
    result = invoke(file, "--include", "noise")
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(
        f"Error: the 2 files of '{tmp_path}/code' have [0-9,]+ bytes when they are packed, but at"
        r" most 3,686,400 can be put into ConfigMaps\. The largest, with their bytes: noise"
        rf" \(3,700,000\), letters\.py \({len(CODE.encode()):,}\)\. Take out what the code does not"
        r" need, or put the code into a store \(--archive FILE --uri URI: spec\.code\.uri\), or"
        r" into an image of your own \(fulmen image\)\.\n",
        result.stderr,
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["big.py"], f"files has {131_072 + len(CODE)} bytes in all, but at most 131072"),
        ([f"more_{n}.py" for n in range(64)], "files has 65 entries, but at most 64 are allowed"),
    ],
)
def test_files_that_the_topology_itself_can_not_hold(tmp_path, names, message):
    file = written(tmp_path)
    for name in names:
        (tmp_path / "code" / name).write_text("#" * 131_072 if len(names) == 1 else "")
    result = invoke(file, "--inline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Leave --inline out." in result.stderr
    assert invoke(file).exit_code == 0


def test_a_file_that_is_not_text(tmp_path):
    file = written(tmp_path)
    (tmp_path / "code" / "latin.py").write_bytes(b"# \xe9")
    result = invoke(file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"Error: '{tmp_path}/code/latin.py' is not text in UTF-8: byte 2 is wrong.\n"
    )


def test_the_code_as_an_archive_for_a_store(tmp_path):
    file = written(tmp_path)
    project(tmp_path)
    archive = tmp_path / "code-1.tar.gz"
    result = invoke(file, "--archive", archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert (result.exit_code, result.stdout) == (0, f"{digest}  {archive}\n")
    result = invoke(file, "--archive", archive, "--uri", "s3://code/code-1.tar.gz")
    topology = yaml.safe_load(result.stdout)
    assert topology["spec"]["code"] == {"uri": "s3://code/code-1.tar.gz", "sha256": digest}
    assert topology["spec"]["spouts"] == yaml.safe_load(DOCUMENT)["spec"]["spouts"]
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    inside = tmp_path / "code" / "code-1.tar.gz"
    for _ in range(2):  # it is no part of itself
        result = invoke(file, "--archive", inside, "--include", "*")
        assert "code-1.tar.gz" not in result.stderr
    with tarfile.open(inside) as packed:
        assert {*names, "words.txt"} < {*packed.getnames()}
        assert [name for name in packed.getnames() if name.endswith(".gz")] == []
    unpack([archive], tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "shop" / "prices.csv").exists()


def test_an_archive_that_is_there_stays_whole_until_the_new_one_is(tmp_path, monkeypatch):
    def breaks_off(project, into):
        into.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    file = written(tmp_path)
    project(tmp_path)
    archive = tmp_path / "code-1.tar.gz"
    invoke(file, "--archive", archive)
    before, there = archive.read_bytes(), set(tmp_path.iterdir())
    monkeypatch.setattr(manifest, "write_packed", breaks_off)
    result = invoke(file, "--archive", archive)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "can't be written: No space left on device" in result.stderr
    assert (archive.read_bytes(), set(tmp_path.iterdir())) == (before, there)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--uri", "s3://a/b"], "--uri is the place of an archive: add --archive FILE."),
        (["--archive", "a", "--uri", "b"], "--uri: uri is 'b', but must be a file in a kind of"),
        (["--archive", "a", "--uri", "s3://b"], "--uri: the URI must end in the name of a file"),
        (["--archive", "nowhere/a"], "--archive: 'nowhere/a' can't be written: No such file"),
    ],
)
def test_an_archive_that_can_not_be_made(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    result = invoke(written(tmp_path), *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
