"""Every message in docs/troubleshooting.md is one that is really said."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fulmen import TopologyBuilder, TransactionalTopologyBuilder
from fulmen.cli.display.run.advice import advice
from fulmen.cli.main import main
from fulmen.engine.driver.driver import Stop
from fulmen.engine.spark.failures import explain, is_incomplete, jvm_end
from fulmen.errors import FulmenError, SparkLost
from fulmen.testing import CollectBolt, run
from support.docs.pages import blocks, write_files
from support.runs.engine_runs import make_driver

PAGE = "docs/troubleshooting.md"
MISTAKES = """\
import os
import threading
import time

os.environ["TOKEN"]

from collections import defaultdict

from fulmen import BasicBolt, Bolt, Spout
from fulmen.testing.components import Killed


class Model(BasicBolt):
    def __init__(self, path):
        self.path = path

    def execute(self, tup, collector):
        pass


class EmitsInOpen(Spout):
    outputs = ["line"]

    def open(self, conf, context, collector):
        collector.emit(["early"])

    def next_tuple(self):
        pass


class Lines(Spout):
    outputs = ["line"]

    def __init__(self):
        self.next = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.next < 10:
            self.collector.emit([self.next], msg_id=self.next)
            self.next += 1

    def is_exhausted(self):
        return self.next == 10


class Split(BasicBolt):
    outputs = ["word"]


class EmitsText(Split):
    def execute(self, tup, collector):
        collector.emit("a")


class EmitsTooMuch(Split):
    def execute(self, tup, collector):
        collector.emit(["a", 1])


class EmitsDict(Split):
    def execute(self, tup, collector):
        collector.emit([{"word": "a"}])


class Misspells(Split):
    def execute(self, tup, collector):
        {}["line"]


class KeepsLockInState(BasicBolt):
    def execute(self, tup, collector):
        self.state["lock"] = threading.Lock()


class Connects(BasicBolt):
    def execute(self, tup, collector):
        self.connection = threading.Lock()


class KeepsMuch(BasicBolt):
    def execute(self, tup, collector):
        self.data = b"0" * 12_000_000


class Deadly(BasicBolt):
    def execute(self, tup, collector):
        if tup["line"] == 7:
            raise Killed("the process dies")


class Unmade(BasicBolt):
    def prepare(self, conf, context):
        raise Killed("the process dies")

    def execute(self, tup, collector):
        pass


class Falls(Lines):
    def next_tuple(self):
        raise Killed("the process dies")


class Replays(Lines):
    def fail(self, msg_id, reason):
        self.next = 0

    def is_exhausted(self):
        return False


class ForgetsToAck(Bolt):
    def execute(self, tup):
        pass


class ForgetsToAnchor(Bolt):
    outputs = ["word"]

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit([tup["line"]])
        self.collector.ack(tup)


class Fails(BasicBolt):
    def execute(self, tup, collector):
        raise ValueError("no")


class EmitsLock(Split):
    def execute(self, tup, collector):
        collector.emit([threading.Lock()])


class CountsByALambda(BasicBolt):
    def __init__(self):
        self.counts = defaultdict(lambda: 0)

    def execute(self, tup, collector):
        self.counts[tup["line"]] += 1


class Totals(BasicBolt):
    def execute(self, tup, collector):
        self.state["total"] = self.state.get("total", 0) + 1


class Tallies(BasicBolt):
    counts = {}

    def execute(self, tup, collector):
        self.counts[tup["line"]] = 1


class Waits(BasicBolt):
    def execute(self, tup, collector):
        time.sleep(0.02)


class OutOfStock(Exception):
    def __init__(self, code, item):
        super().__init__(item)


class EmitsCause(BasicBolt):
    outputs = ("cause",)

    def execute(self, tup, collector):
        collector.emit([OutOfStock(1, "tea")])


class AsksForWrongField(BasicBolt):
    def execute(self, tup, collector):
        tup["wrod"]
"""
TRANSACTIONAL = """\
from fulmen import BasicBolt, BatchBolt, Committer
from fulmen.testing.components import Killed
from fulmen.transactional import MemoryTransactionalSpout, SqliteMap, plus


class Sales(MemoryTransactionalSpout):
    data = {0: [["tea"], ["milk"]]}
    fields = ("product",)


class Count(BatchBolt, Committer):
    def prepare(self, conf, context, collector, attempt):
        self.attempt, self.counts = attempt, SqliteMap("sales.db", "counts", context)

    def execute(self, tup):
        pass

    def finish_batch(self):
        self.counts.update(self.attempt, {"all": 1}, plus)


class Split(BasicBolt):
    outputs = ("tx", "word")

    def execute(self, tup, collector):
        collector.emit(["a", 1])


class Deadly(BasicBolt):
    def execute(self, tup, collector):
        if tup["product"] == "milk":
            raise Killed("the process dies")
"""
WRONG_FILES = (  # changes to the topology of the README
    ["spec.bolts[count].inputs[0].grouping.fields[0]=wrod"],
    ["spec.bolts[split].inputs[0].from=line"],
    ["spec.bolts[split].class=word_count.Split"],
    ["spec.bolts[split].class=mistakes.Connects"],
    ["spec.bolts[count].inputs[0].grouping=shuffle"],
    ["spec.bolts[split].class=mistakes.Model", "spec.bolts[split].name=model"],
    ["spec.bolts[split].inputs[0].from=again", "spec.bolts[count].name=again"],
    ["spec.spark.conf.spark.task.maxFailures='4'"],
)


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    """A module with components that make mistakes, in the folder of the README's topology."""
    folder = tmp_path_factory.mktemp("mistakes")
    write_files("README.md", folder, only={"topology.yaml", "wordcount.py"})
    (folder / "mistakes.py").write_text(MISTAKES)
    (folder / "transactional.py").write_text(TRANSACTIONAL)
    return folder


@pytest.fixture(scope="module")
def said(mistakes):
    """All that is said about all the mistakes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(mistakes)
        patch.syspath_prepend(mistakes)
        patch.setenv("TOKEN", "1")
        module = importlib.import_module("mistakes")
        texts = [*refused_files(), *refused_checkpoints()]
        texts += transactions(importlib.import_module("transactional"))
        texts += [*runs(module), *hints(module), *keeps_nothing(module), other_tasks(module)]
        texts += starts(module, patch)
    text = re.sub(r"takes \d+ ms", "takes 25 ms", "\n".join(texts))
    text = text.replace(str(mistakes), "/data")
    text = text.replace("mistakes.py, transactional.py and wordcount.py", "wordcount.py")
    return text.replace("mistakes", "model")


def fulmen(*arguments):
    result = CliRunner().invoke(main, arguments, prog_name="fulmen")
    return result.stdout + result.stderr


def refused_files():
    for changes in WRONG_FILES:
        options = [part for change in changes for part in ("--set", change)]
        yield fulmen("validate", "topology.yaml", *options)


def refused_checkpoints():
    command = ["run", "topology.yaml", "--in-process", "--for", "0", "--checkpoint", "kept"]
    yield fulmen(*command)
    yield fulmen(*command, "--set", "spec.bolts[count].numTasks=4")
    yield fulmen(*command, "--set", "metadata.name=other")


def runs(module):
    """Topologies that stop, or report errors."""
    lines = module.Lines
    yield outcome(module.EmitsInOpen, "lines")
    yield outcome(lines, "count", module.KeepsLockInState)
    yield outcome(lines, "split", module.EmitsText)
    yield outcome(lines, "split", module.Misspells, on_error="crash")
    yield outcome(lines, "split", module.EmitsTooMuch)
    yield outcome(lines, "split", module.EmitsDict)
    yield outcome(lines, "split", module.Connects)
    yield outcome(lines, "split", module.KeepsMuch)
    yield outcome(lines, "count", module.CountsByALambda)
    yield outcome(lines, "deadly", module.Deadly, spout_tasks=2)
    yield outcome(lines, "model", module.Unmade)
    yield outcome(lines, "asks", module.AsksForWrongField)
    yield from unpicklable(module)
    yield from falls(module)
    yield f"batch 12 is run again: {explain('Python worker exited unexpectedly', [0], {})}"
    lost = "ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 3"
    yield f"batch 3 is run again: {explain(lost, [0], {'1': [0]})}"
    yield str(SparkLost(jvm_end(3), "LOG"))


def unpicklable(module):
    """Errors about a value that can't go to another worker."""
    builder = TopologyBuilder(workers=2, ackers=0, code={"folder": "."})
    builder.set_spout("source", module.Lines)
    builder.set_bolt("split", module.EmitsLock).shuffle_grouping("source")
    builder.set_bolt("words", CollectBolt).shuffle_grouping("split")
    builder.set_bolt("raises", module.EmitsCause).shuffle_grouping("source")
    builder.set_bolt("report", CollectBolt, 2).shuffle_grouping("raises")
    return [error.message for error in run(builder).errors]


def falls(module):
    """What is said of a spout that ends its process, again and again."""
    builder = TopologyBuilder(ackers=0, code={"folder": "."})
    builder.set_spout("sensors", module.Falls)
    at = "2026-11-20 12:00:00 UTC"
    return [re.sub("since .* UTC", f"since {at}", note) for note in run(builder, batches=1).notes]


def hints(module):
    """What the summaries say of topologies that run, but not as they should."""
    yield from hints_about(module.Lines, shout=module.ForgetsToAck)
    yield from hints_about(module.Lines, words=module.ForgetsToAnchor, picky=module.Fails)
    yield from hints_about(module.Lines, asks=module.Waits)
    yield from hints_about(module.Replays, fails=module.Fails, batches=21)


def hints_about(spout, batches=None, **bolts):
    """The hints of the summary of a spout and bolts in a row."""
    builder, source = TopologyBuilder(message_timeout_seconds=1), "source"
    builder.set_spout(source, spout)
    for name, bolt in bolts.items():
        builder.set_bolt(name, bolt).shuffle_grouping(source)
        source = name
    topology = builder.build()
    driver = make_driver(topology, seconds=0.1, code_folder=Path()).start()
    if batches is None:
        driver.run(Stop(when_drained=True))
    for _ in range(batches or 0):
        driver.step()
    driver.close()
    return [f"hint: {sentence}" for sentence in advice(driver.totals, topology)]


def other_tasks(module):
    """What is said of a number of tasks that can't change."""
    kept = Path("state").absolute().as_uri()
    for tasks in (2, 4):
        builder = TopologyBuilder(code={"folder": "."})
        builder.set_spout("source", module.Lines)
        count = builder.set_bolt("count", module.Totals).fields_grouping("source", ["line"])
        count.set_num_tasks(tasks)
        try:
            run(builder, checkpoint=kept)
        except FulmenError as error:
            return str(error).replace(kept, "file:///state")
    raise AssertionError("the number of tasks was changed")


def keeps_nothing(module):
    """What `fulmen state` says of a component that keeps its state elsewhere."""
    builder = TopologyBuilder(code={"folder": "."})
    builder.set_spout("source", module.Lines)
    builder.set_bolt("tally", module.Tallies).shuffle_grouping("source")
    run(builder, checkpoint=Path("tallies").absolute().as_uri())
    yield fulmen("state", "get", "tallies", "tally")


def transactions(module):
    """What is said of transactional topologies."""
    yield run(transactional(module, module.Split, max_replays=0)).errors[0].message
    counts = transactional(module, module.Count, max_replays=0)
    run(counts)
    with pytest.raises(FulmenError) as caught:
        run(counts)
    yield re.sub(r"\(\w{8}-\w{8}\)", "(ea4150b5-cb71181e)", str(caught.value))
    with pytest.raises(FulmenError) as caught:
        run(transactional(module, module.Deadly))
    yield str(caught.value)
    yield run(transactional(module, module.Deadly, max_replays=1)).errors[-1].message


def transactional(module, bolt, **spec):
    """A topology with one of the bolts."""
    folder = {"folder": "."}
    builder = TransactionalTopologyBuilder("sales", "sales", module.Sales, code=folder, **spec)
    builder.set_bolt("count", bolt).shuffle_grouping("sales")
    return builder


def starts(module, patch):
    """Workers that can't import what the driver could. To be called last."""
    yield is_incomplete("ModuleNotFoundError: No module named 'fulmen'", "/usr/bin/python3")
    builder = TopologyBuilder(ackers=0)
    builder.set_spout("lines", module.Lines)
    driver = make_driver(builder, code_folder=Path())
    patch.delenv("TOKEN")
    sys.modules.pop("mistakes", None)
    driver = driver.start()
    with pytest.raises(FulmenError) as caught:
        driver.step()
    yield str(caught.value)


def outcome(spout, name, bolt=None, spout_tasks=1, **spec):
    """What a topology of one spout and one bolt (and what reads from it) says.

    The page's messages are of task 1 of the bolt, or 2 behind another component.
    """
    builder = TopologyBuilder(ackers=0, code={"folder": "."}, **spec)
    source = name if bolt is None else "source"
    builder.set_spout(source, spout, spout_tasks)
    if bolt is not None:
        builder.set_bolt(name, bolt).shuffle_grouping(source)
        builder.set_bolt("another", CollectBolt).shuffle_grouping(source)
    if "word" in getattr(bolt, "outputs", ()):
        builder.set_bolt("words", CollectBolt, 2).fields_grouping(name, ["word"])
    try:
        return "\n".join(error.message for error in run(builder).errors)
    except FulmenError as error:
        return str(error)


@pytest.mark.parametrize("block", blocks(PAGE, "text"), ids=str)
def test_the_message_is_said(block, said):
    assert block.text.strip() in said
