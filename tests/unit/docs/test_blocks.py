"""Every code block of every page is understood by what it is meant for."""

import configparser
import importlib
import json
import re
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from fulmen.checkpoint import CommitLog, Store
from fulmen.cli.main import main
from fulmen.kube.contract import COMPONENT_LABEL, TOPOLOGY_LABEL
from fulmen.testing import run
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.spec import API_VERSION, KIND
from fulmen.topology.validation.check import check
from support.docs.pages import ROOT, blocks, indented_commands, pages, write_files
from support.operator.charts import CHART, HELM, helm
from support.transactions.transacted import run_transacted

PAGES = ["README.md", *pages("docs"), *pages("examples")]
LANGUAGES = {
    *("console", "dockerfile", "ini", "json", "lua", "mermaid", "python", "sh", "text", "yaml"),
}
"""Each has a test: here, in test_docs, test_health, test_structure, test_tutorial or
test_troubleshooting."""
PARTS = ["docs/checkpoint.md", "docs/migration.md", "docs/operations.md"]
"""Pages with parts of a spec, for the topology of the README."""


METRICS = (ROOT / "docs" / "metrics.md").read_text()
"""Which names metrics have: a test compares it with what is scraped."""


def all_blocks(language, of=PAGES):
    return [pytest.param(b, id=str(b)) for page in of for b in blocks(page, language)]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language_that_is_tested(page):
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("block", all_blocks("yaml", PARTS))
def test_parts_of_a_spec_are_valid_and_objects_are_about_topologies(block, tmp_path):
    part = yaml.safe_load(block.text)
    if "kind" in part:
        about_topologies(part)
        return
    if "networkPolicies" in part:  # values of the chart
        file = tmp_path / "values.yaml"
        file.write_text(block.text)
        assert HELM is None or helm("template", "x", str(CHART), "--values", str(file))
        return
    write_files("README.md", tmp_path, only={"topology.yaml", "wordcount.py"})
    if "streams" in part:  # of a Flux file
        assert [stream["to"] for stream in part["streams"]] == [b["id"] for b in part["bolts"]]
        return
    document = parse_yaml((tmp_path / "topology.yaml").read_text())
    changes = part.get("spec", part)
    for bolt in changes.pop("bolts", []):
        [same] = [b for b in document["spec"]["bolts"] if b["name"] == bolt["name"]]
        same.clear()
        same.update(bolt | {"class": "wordcount.Count"})
    document["spec"] |= changes
    problems = [*check(document, tmp_path, for_kubernetes="bolts" not in part).problems]
    ours = [str(p) for p in problems if not p.path.startswith("spec.code")]
    assert ours == []


def about_topologies(thing):
    """Check that an object of another kind names our resource and our labels."""
    spec = thing["spec"]
    if thing["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
        for trigger in spec.get("triggers", ()):
            assert re.findall(r"fulmen_\w+", trigger["metadata"]["query"])[0] in METRICS
        assert spec["scaleTargetRef"]["apiVersion"] == API_VERSION
        assert spec["scaleTargetRef"]["kind"] == KIND
    elif thing["kind"] == "Ingress":
        assert spec["rules"]
    else:
        assert thing["kind"] in ("PodDisruptionBudget", "Service", "NetworkPolicy")
        chosen = spec.get("selector") or spec["podSelector"]
        assert chosen.get("matchLabels", chosen).keys() == {TOPOLOGY_LABEL, COMPONENT_LABEL}


@pytest.mark.parametrize("block", all_blocks("sh"))
def test_a_shell_understands_commands_without_output(block):
    done = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values = yaml.safe_load((ROOT / "charts" / "fulmen" / "values.yaml").read_text())
    if "helm install" in block.text:
        for name in re.findall(r"--set (\w[\w.]*)=", block.text):
            place = values
            for part in name.split("."):
                assert part in place, name
                place = place[part]


@pytest.mark.parametrize("block", all_blocks("dockerfile"))
def test_an_image_of_your_own_ends_as_the_user_of_the_image(block):
    ours = (ROOT / "Dockerfile").read_text()
    user = re.findall(r"^USER (\w+)$", block.text, re.MULTILINE)[-1]
    assert user == re.findall(r"^USER (\w+)$", ours, re.MULTILINE)[-1]
    assert block.text.startswith("FROM REGISTRY/fulmen:TAG\n")


@pytest.mark.parametrize("block", all_blocks("ini"))
def test_the_unit_of_systemd_starts_a_command_that_exists(block):
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read_string(block.text)
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert program.endswith("/fulmen")
    command = main.get_command(None, arguments[0])
    for parameter in command.params:
        if hasattr(parameter.type, "exists"):
            parameter.type.exists = False
    command.make_context("fulmen", arguments[1:])


@pytest.fixture
def word_count(tmp_path, monkeypatch):
    """The topology of the README, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "logs"))
    write_files("README.md", tmp_path, only={"topology.yaml", "wordcount.py"})
    return tmp_path


def shape(value):
    """The keys of a value on all levels; of a list those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else ...


def shown_json(key):
    """The block of docs/cli.md that has a key."""
    found = (json.loads(block.text) for block in blocks("docs/cli.md", "json"))
    return next(content for content in found if key in content)


def printed(*arguments):
    return json.loads(CliRunner().invoke(main, arguments, prog_name="fulmen").stdout)


def test_validate_prints_json_of_the_shape_that_the_page_shows(word_count):
    wrong = ["--set", "spec.bolts[count].inputs[0].from=line"]
    assert shape(printed("validate", "--json", "topology.yaml", *wrong)) == shape(
        shown_json("problems")
    )


def test_plan_prints_the_json_that_the_page_shows(word_count):
    shown = shown_json("executors")
    changes = ["spec.workers=1", "spec.bolts[count].parallelism=1", "spec.bolts[count].numTasks=2"]
    document = parse_yaml((word_count / "topology.yaml").read_text())
    document["spec"]["bolts"] = [
        bolt | {"inputs": [{"from": "lines", "grouping": {"type": "shuffle"}}]}
        for bolt in document["spec"]["bolts"]
        if bolt["name"] == "count"
    ]
    (word_count / "one.yaml").write_text(yaml.safe_dump(document))
    options = [part for change in changes for part in ("--set", change)]
    assert printed("plan", "one.yaml", "-o", "json", *options) == shown


def test_the_report_has_the_shape_that_the_page_shows(word_count):
    topology = parse(parse_yaml((word_count / "topology.yaml").read_text()))
    shown, report = shown_json("seconds"), run(topology).report
    assert report.keys() == shown.keys()
    for part in ("trees", "latency_ms"):
        assert report[part].keys() == shown[part].keys()
    assert report["components"]["split"].keys() == shown["components"]["parse"].keys()


def test_the_steps_of_a_driver_work_as_the_page_about_the_checkpoint_shows(tmp_path):
    [block] = blocks("docs/checkpoint.md", "python")
    names = {
        "CommitLog": CommitLog,
        "Store": Store,
        "uri": tmp_path.as_uri(),
        "tag": "t1",
        "clock": 1.0,
        "updates": (),
        "acks": b"acks",
    }
    exec(compile(block.text, str(block), "exec"), names)
    assert names["log"].manifest.transient == {"deliveries": b"acks"}
    assert names["log"].manifest.number == 2


@pytest.mark.parametrize("page", PAGES)
def test_indented_commands_exist(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for program, *arguments in indented_commands(page):
        if program == "make":
            assert arguments[0] in targets
        elif program == "fulmen":
            assert main.get_command(None, arguments[0]), arguments
        elif program.endswith("python") and arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]), arguments
        elif program.endswith(("python", "pytest")):
            assert (ROOT / arguments[0]).exists(), arguments


def test_the_table_of_the_report_has_every_figure():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = text.partition("### The report\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    named = {name.rpartition(".")[2] for row in rows for name in re.findall(r"`(.+?)`", row)}
    shown = shown_json("seconds")
    [component] = shown["components"].values()
    figures = {*shown, *shown["trees"], *component} - {"topology", "trees", "components", "tasks"}
    assert figures == named


def test_the_report_of_transactions_has_the_shape_and_the_table_that_the_page_shows():
    shown = shown_json("transactions")["transactions"]
    assert shape(run_transacted().totals.report()["transactions"]) == shape(shown)
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    section = text.partition("### Transactions in the report\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    figures = {*shown, *(f"attempts.{outcome}" for outcome in shown["attempts"])} - {"attempts"}
    assert set(rows) == figures


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_config_map_that_a_page_shows_is_the_one_that_is_printed(page, tmp_path, monkeypatch):
    write_files(page, tmp_path)
    for other in ("totals.py", "paid.py", "test_paid.py"):  # of README: in other folders
        (tmp_path / other).unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["manifest", "topology.yaml"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    source, *_ = yaml.safe_load_all(result.stdout)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"configmap/{source['metadata']['name']} created\n" in text
