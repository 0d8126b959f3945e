"""Files as the source of transactions: each line in one of them, whatever becomes of files."""

import contextlib
import pickle
from collections import Counter

import pytest

from fulmen import (
    BatchBolt,
    Committer,
    FailedException,
    ServiceUnavailable,
    TransactionalTopologyBuilder,
)
from fulmen.api import TopologyContext
from fulmen.checkpoint import Store
from fulmen.connectors.files import OpaqueTransactionalFileSpout, TransactionalFileSpout
from fulmen.connectors.files.options import TransactionalFileSpoutOptions
from fulmen.connectors.files.reading import parts
from fulmen.connectors.files.reading.parts import LinesGone
from fulmen.engine.driver.edits.decisions import accept_store
from fulmen.testing import run
from fulmen.testing.running import NotDrained
from fulmen.transactional.conformance import at
from support.runs.engine_runs import A_PERSON

EXACT, OPAQUE = TransactionalFileSpout, OpaqueTransactionalFileSpout
BOTH = pytest.mark.parametrize("kind", [EXACT, OPAQUE])


OPEN = {}


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.popitem()[1].close()


class Source:
    """A task of a spout: what it keeps is that of its last transaction, in each new process."""

    def __init__(self, kind, path, **options):
        options = {"path": str(path), "follow": False, **options}
        self.options = TransactionalFileSpoutOptions(**options)
        self.kind, self.kept, self.errors, self.ends = kind, {}, [], {}
        self.emitter = None
        self.start()

    def start(self):
        """A new process."""
        self.close()
        context = TopologyContext(
            *("shop", "lines", 1, 0, 0),
            component_tasks={"lines": range(1, 2)},
            options=self.options,
            state=pickle.loads(pickle.dumps(self.kept)),
        )
        self.emitter = self.kind().get_emitter({}, context)
        self.state = context.state
        OPEN[id(self)] = self

    def close(self):
        if self.emitter is not None:
            self.emitter.close()

    def attempt(self, txid, emit=None):
        """What an attempt has on each stream, whatever becomes of it."""
        self.rows = {"default": [], "errors": []}
        self.emit_row = emit or (lambda values: None)
        attempt, is_known = at(txid), txid in self.ends
        last = self.ends.get(max((before for before in self.ends if before < txid), default=0))
        if self.kind is OPAQUE:
            end = self.emitter.emit_partition_batch(attempt, self, 0, last)
        elif is_known:
            end = self.emitter.emit_partition_batch(attempt, self, 0, self.ends[txid])
        else:
            end = self.emitter.emit_partition_batch_new(attempt, self, 0, last)
        if self.kind is OPAQUE or not is_known:
            assert end is not None
            self.ends[txid] = end
        self.kept = pickle.loads(pickle.dumps(dict(self.state)))
        return [row[1] for row in self.rows["default"]]

    def emit(self, values, stream="default"):
        self.emit_row(values)
        self.rows[stream].append(values)

    def report_error(self, error):
        self.errors.append(error)


def written(file, *lines, mode="w"):
    with open(file, mode) as opened:
        opened.write("".join(f"{line}\n" for line in lines))
    return file


@BOTH
@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
def test_a_rotated_log_has_each_line_once(kind, pattern, tmp_path):
    log = written(tmp_path / "app.log", "a", "b")
    source = Source(kind, tmp_path / pattern)
    assert source.attempt(1) == ["a", "b"]
    written(log, "c", mode="a")
    log.rename(tmp_path / "app.log.1")
    written(log, "d", "e", "f")
    source.start()
    assert source.attempt(2) == ["c", "d", "e", "f"]
    source.start()
    assert source.attempt(3) == []


@BOTH
@pytest.mark.parametrize("is_new_process", [False, True])
def test_an_attempt_has_the_lines_of_the_one_before_though_a_file_was_renamed(
    kind, is_new_process, tmp_path
):
    log = written(tmp_path / "app.log", "1,a", "2,b", "3,c", "no number")
    options = {"format": {"type": "csv", "fields": {"n": "int64", "text": "string"}}}
    source = Source(kind, tmp_path / "app.log", max_messages=3, **options)
    assert source.attempt(1) == [1, 2, 3]
    assert source.attempt(2) == []
    first = source.rows
    log.rename(tmp_path / "app.log.1")
    written(log, "4,d")
    if is_new_process:
        source.start()
    if kind is EXACT:
        assert source.attempt(2) == []
        assert source.rows["errors"] == first["errors"] != []
    assert source.attempt(1) == [1, 2, 3]


def cut(log):
    written(log, "y")


def replaced(log):
    log.unlink()
    written(log, "x", "y", "z")


def overwritten(log):
    """The same bytes at its beginning, and at its end: what is in between is another line."""
    with open(log, "r+b") as file:
        file.seek(2000)
        file.write(b"?")


LOST = pytest.mark.parametrize("harm", [cut, replaced, overwritten])


def long_log(folder):
    return written(folder / "app.log", *(f"{n:09}" for n in range(500)))


@LOST
def test_a_transaction_that_cannot_be_repeated_says_so(harm, tmp_path):
    log = long_log(tmp_path)
    source = Source(EXACT, log)
    assert len(source.attempt(1)) == 500
    harm(log)
    source.start()
    with pytest.raises(LinesGone) as caught:
        source.attempt(1)
    text = f"this transaction has 500 lines from {log}:0 on, and can't be emitted again as it was:"
    assert str(caught.value).startswith(text)


@LOST
def test_the_opaque_spout_tells_what_cannot_be_repeated_and_goes_on(harm, tmp_path):
    log = long_log(tmp_path)
    source = Source(OPAQUE, tmp_path / "*.log")
    source.attempt(1)
    harm(log)
    written(tmp_path / "other.log", "a")
    source.start()
    assert "a" in source.attempt(1)
    told = "500 lines of a transaction that has failed are gone"
    assert any(told in error for error in source.errors)
    assert any(told in reason for _, _, reason, _ in source.rows["errors"])
    source.errors.clear()
    assert "a" in source.attempt(1)
    assert source.errors == []


def test_an_opaque_attempt_begins_where_the_last_committed_transaction_ended(tmp_path):
    log = written(tmp_path / "app.log", *"abcdef")
    source = Source(OPAQUE, tmp_path / "*.log", max_messages=2)
    found = [source.attempt(txid) for txid in (1, 2, 3)]
    assert found == [["a", "b"], ["c", "d"], ["e", "f"]]
    source.emitter.cleanup_before(2)  # 2 and 3 have failed
    source.start()
    assert [source.attempt(txid) for txid in (2, 3)] == [["c", "d"], ["e", "f"]]
    log.rename(tmp_path / "gone")
    source.start()
    found = [source.attempt(txid) for txid in (2, 3)]
    assert sorted(found[0] + found[1]) == ["c", "d", "e", "f"], "it is known under any name"


@BOTH
def test_an_attempt_that_fails_while_it_emits_loses_nothing(kind, tmp_path):
    written(tmp_path / "a.log", "a", "b")
    written(tmp_path / "b.log", "c")
    source = Source(kind, tmp_path / "*.log", max_messages=10)

    def refuse(values):
        if values[1] == "c":
            raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        source.attempt(1, emit=refuse)
    assert source.attempt(1) == ["a", "b", "c"]


@BOTH
def test_only_what_is_pending_is_written_each_time(kind, tmp_path):
    for n in range(30):
        written(tmp_path / f"{n}.log", f"line {n}")
    source = Source(kind, tmp_path / "*.log")
    assert len(source.attempt(1)) == 30
    source.emitter.cleanup_before(2)
    assert source.attempt(2) == []
    own = source.kept[parts._OWN]
    assert (len(own.progress.positions), [*own.parts]) == (0, [2])
    assert len(source.kept) == 31
    for file in tmp_path.iterdir():
        file.unlink()
    source.start()
    source.attempt(3)
    assert [*source.kept] == [parts._OWN], "files that are gone are forgotten"


@BOTH
def test_a_folder_that_is_away_is_waited_for(kind, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    written(folder / "app.log", "a", "b")
    source = Source(kind, folder / "app.log")
    source.attempt(1)
    folder.rename(tmp_path / "away")
    source.start()
    if kind is EXACT:
        with pytest.raises(ServiceUnavailable):
            source.attempt(1)
    else:
        with contextlib.suppress(FailedException):
            assert source.attempt(1) == []
    (tmp_path / "away").rename(folder)
    source.start()
    assert source.attempt(1) == ["a", "b"]


COLLECTED, AWAY = [], []


class CollectPairs(BatchBolt, Committer):
    def prepare(self, conf, context, collector, attempt):
        self.lines = []

    def execute(self, tup):
        self.lines.append(tup[1])

    def finish_batch(self):
        if AWAY:
            raise FailedException("not now")
        COLLECTED.extend(self.lines)


@BOTH
def test_a_run_ends_where_files_do_and_goes_on_in_another(kind, tmp_path):
    log = written(tmp_path / "app.log", *"abcde")
    builder = TransactionalTopologyBuilder("files", "lines", kind, 2, max_spout_pending=2)
    builder.get_spout_declarer().set_config(
        {"path": f"{tmp_path}/*.log", "follow": False, "maxMessages": 2}
    )
    builder.set_bolt("pairs", CollectPairs).global_grouping("lines")
    COLLECTED.clear()
    first = run(builder)
    assert first.batches < 10
    log.rename(tmp_path / "app.log.1")
    written(log, "f")
    run(builder, checkpoint=first)
    assert Counter(COLLECTED) == Counter("abcdef")


@BOTH
def test_each_line_comes_once_whatever_the_numbers_of_tasks(kind, tmp_path):
    lines, result = [], None
    COLLECTED.clear()
    for tasks in (2, 3, 1, 4):
        for name in "abc":
            new = [f"{name} {tasks} {i}" for i in range(3)]
            lines += new
            written(tmp_path / f"{name}.log", *new, mode="a")
        if tasks == 1:
            (tmp_path / "a.log").rename(tmp_path / "a.log.1")
        builder = TransactionalTopologyBuilder("files", "lines", kind, tasks)
        builder.get_spout_declarer().set_num_tasks(tasks).set_config(
            {"path": f"{tmp_path}/*.log", "follow": False, "maxMessages": 2}
        )
        builder.set_bolt("pairs", CollectPairs).global_grouping("lines")
        result = run(builder, checkpoint=result)
        assert Counter(COLLECTED) == Counter(lines)


@BOTH
def test_what_was_opened_when_another_store_is_accepted_comes_under_higher_numbers(kind, tmp_path):
    log, store = (
        written(tmp_path / "app.log", *"abcd"),
        Store.open(f"file://{tmp_path}/ck?fsync=false"),
    )
    builder = TransactionalTopologyBuilder("files", "lines", kind, max_spout_pending=2)
    builder.get_spout_declarer().set_config({"path": str(log), "follow": False, "maxMessages": 2})
    builder.set_bolt("pairs", CollectPairs).global_grouping("lines")
    COLLECTED.clear()
    run(builder, checkpoint=store)
    written(log, *"efgh", mode="a")
    AWAY.append(True)
    with pytest.raises(NotDrained):
        run(builder, checkpoint=store, at_most=10)
    AWAY.clear()
    accept_store(store, "lines", 20, A_PERSON)
    run(builder, checkpoint=store)
    assert [*"abcdefgh"] == COLLECTED


def test_the_attempt_is_the_first_field_and_the_only_one_of_its_name():
    options = TransactionalFileSpoutOptions(path="*", file_field="from")
    streams = EXACT().outputs_for(options)
    assert streams["default"].fields == ("tx", "value", "from")
    assert streams["errors"].fields == ("tx", "data", "reason", "position")
    with pytest.raises(ValueError, match="the field 'tx' is the attempt of the transaction"):
        TransactionalFileSpoutOptions(path="*", file_field="tx")
