"""What the summary says about common mistakes: how a beginner's topologies end."""

import re

import pytest

from support.cli.cli_runs import write_letters

COMPONENTS = """

from fulmen import Bolt

CALLS = 0


class Anchoring(Bolt):
    outputs = ["letter"]

    def prepare(self, conf, context, collector):
        self.collector = collector


class ForgetsToAck(Anchoring):
    def execute(self, tup):
        if tup["letter"] != "a":
            self.collector.ack(tup)


class AcksAll(Anchoring):
    def execute(self, tup):
        self.collector.emit([tup["letter"]], anchors=tup)
        self.collector.ack(tup)


class ForgetsToAnchor(Anchoring):
    def execute(self, tup):
        self.collector.emit([tup["letter"]])
        self.collector.ack(tup)


class Fails(Anchoring):
    def execute(self, tup):
        if tup["letter"] == "a":
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class FailsForEver(BasicBolt):
    def execute(self, tup, collector):
        raise FailedException("not today")


class Waits(BasicBolt):
    def execute(self, tup, collector):
        time.sleep(0.025)


class CountsInAGlobal(BasicBolt):
    def execute(self, tup, collector):
        global CALLS
        CALLS += 1


class Prints(BasicBolt):
    def execute(self, tup, collector):
        print("here is", tup["letter"])


class Logs(BasicBolt):
    def execute(self, tup, collector):
        import logging
        logging.getLogger(__name__).info("here is %s", tup["letter"])


class FailsAtTheEnd(BasicBolt):
    def execute(self, tup, collector):
        pass

    def cleanup(self):
        raise OSError("the file is gone")
"""
NUMBERS = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: numbers}
spec:
  spouts:
    - name: numbers
      class: fulmen.connectors.files.FileSpout
      config: {path: FOLDER/a.csv, follow: false, format: {type: csv, fields: {number: int32}}}
  bolts:
    - name: files
      class: fulmen.connectors.files.FileSink
      inputs: [{from: numbers, grouping: {type: shuffle}}]
      config: {path: FOLDER/out, format: {type: json}}
    - name: malformed
      class: fulmen.connectors.files.FileSink
      inputs: [{from: numbers, stream: errors, grouping: {type: shuffle}}]
      config: {path: FOLDER/malformed, format: {type: json}}
"""


@pytest.fixture
def run(fulmen, tmp_path):
    """Runs letters through bolts in a row, by the names of their classes: run(*classes, **spec)."""

    def run(*classes, options=("--until-drained",), count=10, bolt=None, **spec):
        bolts, source = [], "letters"
        for name in classes:
            one = {"name": name.lower(), "class": f"letters.{name}", **(bolt or {})}
            one["inputs"] = [{"from": source, "grouping": {"type": "shuffle"}}]
            bolts.append(one)
            source = one["name"]
        spouts = [{"name": "letters", "class": "letters.Letters"}]
        file = write_letters(tmp_path, {"count": count}, spouts=spouts, bolts=bolts, **spec)
        code = tmp_path / "letters.py"
        text = code.read_text().replace("import BasicBolt", "import BasicBolt, FailedException")
        code.write_text(text + COMPONENTS)
        return fulmen("run", file, "--in-process", *options)

    return run


def hints(result):
    assert result.exit_code == 0, result.output
    return re.findall(r"^hint: (.*)$", result.stdout, re.MULTILINE)


def test_nothing_to_say(run):
    assert hints(run("AcksAll", "Count")) == []


@pytest.mark.slow
def test_a_bolt_that_does_not_ack(run):
    result = run("ForgetsToAck", messageTimeoutSeconds=1, options=("--for", "1.2"))
    [hint] = hints(result)
    assert re.fullmatch(
        r"bolt 'forgetstoack' has neither acked nor failed \d+ of its \d+ tuples, and trees time "
        r"out\. A Bolt must call ack or fail for every tuple; a BasicBolt does so by itself\.",
        hint,
    )
    assert "\nhint: bolt 'forgetstoack' has neither acked nor failed" in result.stderr


def test_a_bolt_that_does_not_anchor(run):
    assert hints(run("ForgetsToAnchor", "Fails")) == [
        "bolt 'fails' has failed 2 tuples, but they are in no tree, so no spout was told. Anchor "
        "what is emitted, as in emit(values, anchors=tup), and emit with a msg_id in the spout."
    ]


def test_a_bolt_that_fails_what_is_anchored(run):
    assert hints(run("AcksAll", "Fails", maxReplays=2)) == [
        "2 dead letters are in the checkpoint. `fulmen dead-letters list` shows them and why they"
        " failed. Once that is mended, `fulmen dead-letters replay` sends them again."
    ]


def test_without_ackers_nothing_is_in_a_tree(run):
    assert hints(run("ForgetsToAnchor", "Fails", ackers=0)) == []


def test_a_bolt_that_waits(run):
    [hint] = hints(run("Waits"))
    assert re.fullmatch(
        r"bolt 'waits' takes \d+ ms for a tuple, one after another\. If it waits for something "
        r"outside, give it blocking: true and more parallelism; if it computes, more workers\.",
        hint,
    )


def test_a_blocking_bolt_that_waits(run):
    assert hints(run("Waits", bolt={"blocking": True, "parallelism": 4})) == []


@pytest.mark.slow
def test_messages_that_fail_again_and_again(run):
    [hint] = hints(run("FailsForEver", count=100, options=("--for", "3")))
    assert re.fullmatch(
        r"messages that failed were emitted again [\d,]+ times, without a limit\. With "
        r"spec\.maxReplays they go to the dead letters in the end\.",
        hint,
    )


@pytest.mark.parametrize("good", [1, 30], ids=["most", "few"])
def test_a_source_most_of_whose_messages_are_malformed(fulmen, tmp_path, good):
    (tmp_path / "a.csv").write_text("4.0\n" * 20 + "4\n" * good)
    (tmp_path / "numbers.yaml").write_text(NUMBERS.replace("FOLDER", str(tmp_path)))
    found = hints(fulmen("run", str(tmp_path / "numbers.yaml"), "--in-process", "--until-drained"))
    told = (
        "20 of 21 messages of 'numbers' could not be read as its format says: they are on the"
        " stream 'errors', with the `reason`."
    )
    assert found == ([told] if good == 1 else [])


def test_errors_of_each_component_are_in_the_summary(run):
    result = run("AcksAll", "FailsAtTheEnd")
    assert "\nfailsattheend: 1 error, in task 4: cleanup: OSError: the file is gone\n" in (
        result.stdout
    )


def test_an_error_at_the_end_is_counted_told_and_logged(run, tmp_path):
    result = run("FailsAtTheEnd")
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    assert result.exit_code == 0
    assert "error in 'failsattheend', task 3: cleanup: OSError" in result.stderr
    assert re.search(r"^failsattheend +1 .* 1$", result.stdout, re.MULTILINE)
    assert 'raise OSError("the file is gone")' in log.read_text()
    assert result.stdout.endswith(f"\nlog: {log}\n")


def test_state_in_a_global_variable(run, fulmen):
    run("CountsInAGlobal", options=("--until-drained", "--checkpoint", "kept"))
    result = fulmen("state", "get", "kept", "countsinaglobal")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        "component 'countsinaglobal' has nothing in self.state. What is kept in a global variable, "
        "or in a field of the class itself, is lost with its process. --kind fields shows the "
        "fields of its instances.\n"
    )


def test_what_a_component_logs_is_in_the_log_of_the_run(run, tmp_path):
    result = run("Logs")
    [log] = tmp_path.glob("state/fulmen/runs/*/run.log")
    assert len(re.findall(r" INFO letters: here is [a-e]$", log.read_text(), re.MULTILINE)) == 10
    assert "here is" not in result.stderr
