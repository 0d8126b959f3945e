"""`fulmen image`: a Dockerfile for a project, and the topology that runs in it."""

import shlex
from importlib.metadata import version

import pytest
import yaml
from click.testing import CliRunner

from fulmen.cli.main import main
from support.cli.cli_runs import CODE, DOCUMENT


@pytest.fixture
def project(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "letters.py").write_text(CODE)
    (tmp_path / "topology.yaml").write_text(DOCUMENT)
    return tmp_path


def invoke(project, command, *args):
    return CliRunner().invoke(main, [command, str(project / "topology.yaml"), *args])


def lines_of(project):
    return (project / "Dockerfile").read_text().splitlines()


def test_packages_are_installed_by_root_and_run_by_the_pods_user(project):
    (project / "requirements.txt").write_text("duckdb\n")
    result = invoke(project, "image", "--from", "registry:5000/fulmen:7")
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines_of(project) == [
        "FROM registry:5000/fulmen:7",
        "USER root",
        "COPY requirements.txt code /opt/fulmen/code/",
        "RUN pip install --no-cache-dir --requirement /opt/fulmen/code/requirements.txt"
        " && pip check",
        "USER 185",
    ]
    assert "**/.*" in (project / ".dockerignore").read_text().splitlines()
    assert f"docker build --tag IMAGE {shlex.quote(str(project))}\n" in result.stdout


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        ({}, ["COPY code /opt/fulmen/code/"]),
        (
            {"code/requirements.txt": "duckdb"},
            [
                "USER root",
                "COPY code /opt/fulmen/code/",
                "RUN pip install --no-cache-dir --requirement /opt/fulmen/code/requirements.txt"
                " && pip check",
                "USER 185",
            ],
        ),
        (
            {"pyproject.toml": "[project]\ndependencies = ['fulmen[local]>=0.1', 'duckdb>=1']"},
            [
                "USER root",
                "COPY code /opt/fulmen/code/",
                "RUN pip install --no-cache-dir 'duckdb>=1' && pip check",
                "USER 185",
            ],
        ),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100"}, ["COPY code /opt/fulmen/code/"]),
        (
            {
                "requirements.txt": "-r needs/base.txt\n-r https://example.org/r.txt",
                "needs/base.txt": "duckdb  # as in\n-c most.txt\n-r base.txt",
                "needs/most.txt": "",
            },
            [
                "USER root",
                "COPY requirements.txt code /opt/fulmen/code/",
                "COPY needs/base.txt /opt/fulmen/code/needs/base.txt",
                "COPY needs/most.txt /opt/fulmen/code/needs/most.txt",
                "RUN pip install --no-cache-dir --requirement /opt/fulmen/code/requirements.txt"
                " && pip check",
                "USER 185",
            ],
        ),
    ],
    ids=[
        *("no-packages", "requirements-in-the-code", "pyproject", "pyproject-for-tools"),
        "requirements-of-several-files",
    ],
)
def test_what_a_project_asks_for(project, files, lines):
    for name, content in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content)
    assert invoke(project, "image").exit_code == 0
    assert lines_of(project) == [f"FROM fulmen:{version('fulmen')}", *lines]


def test_files_that_are_there_are_left_alone(project):
    (project / ".dockerignore").write_text("mine\n")
    assert invoke(project, "image").exit_code == 0
    (project / "Dockerfile").write_text("mine\n")
    result = invoke(project, "image")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is a" in result.stderr
    assert {(project / name).read_text() for name in ("Dockerfile", ".dockerignore")} == {"mine\n"}


def test_code_elsewhere_with_a_blank_in_its_name(project, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "my code"
    other.mkdir()
    assert invoke(project, "image", "--code-folder", str(other)).exit_code == 0
    assert (other / "Dockerfile").read_text().splitlines()[1] == "COPY . /opt/fulmen/code/"
    inside = project / "my code"
    inside.mkdir()
    assert invoke(project, "image", "--code-folder", str(inside)).exit_code == 0
    assert lines_of(project)[1] == 'COPY ["my code", "/opt/fulmen/code/"]'


def test_a_topology_without_a_folder(project):
    (project / "topology.yaml").write_text(DOCUMENT.replace("folder: code", "configMap: code"))
    result = invoke(project, "image")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "names no folder in spec.code" in result.stderr


@pytest.mark.parametrize("single", [False, True])
def test_the_topology_that_has_its_code_in_an_image(project, single):
    options = ["--set", "spec.deployment=single-pod"] if single else []
    result = invoke(project, "manifest", "--image", "mine:1", *options)
    assert (result.exit_code, result.stderr) == (0, "")
    spec = yaml.safe_load(result.stdout)["spec"]
    assert spec["driver"] == {"image": "mine:1"}
    assert spec.get("worker") == (None if single else {"image": "mine:1"})
    assert "code" not in spec


def test_nothing_goes_along_with_an_image(project):
    result = invoke(project, "manifest", "--image", "mine:1", "--wheels")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave --archive, --wheels" in result.stderr


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("requirements.txt", "-r ../base.txt", "includes files outside of"),
        ("requirements.txt", "-r gone.txt", "gone.txt' can't be read"),
        ("pyproject.toml", "[project]\ndynamic = ['dependencies']", "has no project.dependencies"),
        ("pyproject.toml", "[tool.poetry.dependencies]", "has no project.dependencies"),
        ("pyproject.toml", "[project]\ndependencies = 'duckdb'", "is not a list of texts"),
    ],
)
def test_packages_that_an_image_would_miss(project, file, content, words):
    (project.parent / "base.txt").write_text("")
    (project / file).write_text(content)
    result = invoke(project, "image")
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert not (project / "Dockerfile").exists()
