"""From a revision to what can be run; and what preflights say about candidates."""

import errno
import io
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
from types import ModuleType

import pytest

from fulmen.checkpoint import LAYOUT, CommitLog, Store, Update
from fulmen.engine.driver.checkpoints.layout import Layout
from fulmen.errors import (
    CheckpointLost,
    CheckpointMismatch,
    CodeError,
    Denied,
    Unreachable,
    ValidationFailed,
)
from fulmen.kube.container.preparation import code_folder, known_tasks, prepare, topology_of
from fulmen.kube.contract import DRIVER, WORKER
from fulmen.kube.contract.revisions import Candidate, Revision
from fulmen.kube.preflight import preflight
from fulmen.topology.reading.field_problems import parse
from support.docs.pages import ROOT

CODE = """
from fulmen import Spout


class Source(Spout):
    outputs = ["n"]

    def open(self, conf, context, collector): ...

    def next_tuple(self): ...
"""


@pytest.fixture
def code(tmp_path):
    """As a mounted ConfigMap looks: files are links into a hidden folder."""
    folder = tmp_path / "code"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026" / "parts.py").write_text(CODE)
    (folder / "..data").symlink_to("..2026")
    (folder / "parts.py").symlink_to("..data/parts.py")
    return folder


def document(tmp_path, **spec):
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "shop", "namespace": "blue", "uid": "u-1"},
        "spec": {
            "spouts": [{"name": "source", "class": "parts.Source", "numTasks": 3}],
            "checkpoint": {"uri": (tmp_path / "checkpoint").as_uri()},
            **spec,
        },
    }


def revision(tmp_path, last_batch=0, **spec):
    return Revision(generation=1, topology=document(tmp_path, **spec), last_batch=last_batch)


def test_a_plan_can_be_run(tmp_path, code):
    prepared = prepare(revision(tmp_path), code)
    assert prepared.topology.spec.spouts[0].tasks == 3
    assert prepared.streams["source"]["default"].fields == ("n",)
    assert prepared.code_folder == code


def packed(tmp_path, *members):
    """A mounted ConfigMap with an archive."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    with tarfile.open(folder / "code.tar.gz", "w:gz") as archive:
        for name, content, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), "elsewhere"
            archive.addfile(member, io.BytesIO(content))
    return folder


def test_a_packed_project_is_unpacked(tmp_path):
    folder = packed(
        tmp_path,
        ("shop", b"", tarfile.DIRTYPE),
        ("shop/__init__.py", CODE.encode(), tarfile.REGTYPE),
        ("shop/prices.csv", b"a,1", tarfile.REGTYPE),
    )
    into = tmp_path / "into"
    for _ in range(2):  # a container may be started again
        assert code_folder(folder, into) == into
    assert (into / "shop" / "prices.csv").read_text() == "a,1"


def test_a_packed_project_in_parts_is_put_together(tmp_path):
    folder = packed(tmp_path, ("a.py", random.Random(1).randbytes(9999), tarfile.REGTYPE))
    whole = folder / "code.tar.gz"
    content = whole.read_bytes()
    whole.unlink()
    for number, start in enumerate(range(0, len(content), 4000), 1):
        (folder / f"code.tar.gz.{number}").write_bytes(content[start : start + 4000])
    assert number == 3
    into = tmp_path / "into"
    assert code_folder(folder, into) == into
    assert (into / "a.py").read_bytes() == random.Random(1).randbytes(9999)


def unpacked_by_a_worker(folder, into):
    """What the entrypoint of the image does."""
    script = (ROOT / "runtime/fulmen/kube/entrypoint").read_text()
    _, _, part = script.partition("# Code that is an archive")
    part = part.partition("# Code that is in a store")[0].partition("\n")[2]
    part = part.replace("/opt/fulmen/code", str(folder)).replace("/var/fulmen/code", str(into))
    subprocess.run(["bash", "-euc", part], check=True)


def unpacked_by_a_driver(folder, into):
    assert code_folder(folder, into) == into


@pytest.mark.parametrize("unpack", [unpacked_by_a_worker, unpacked_by_a_driver])
@pytest.mark.parametrize("others", [[], ["code.tar.gz.sha256", "code.tar.gz.sig"]])
@pytest.mark.parametrize("is_in_parts", [False, True])
def test_what_is_beside_an_archive_is_no_part_of_it(tmp_path, unpack, others, is_in_parts):
    folder = packed(tmp_path, ("a.py", CODE.encode(), tarfile.REGTYPE))
    if is_in_parts:
        whole = folder / "code.tar.gz"
        content = whole.read_bytes()
        whole.unlink()
        (folder / "code.tar.gz.1").write_bytes(content[:50])
        (folder / "code.tar.gz.2").write_bytes(content[50:])
    for name in others:
        (folder / name).write_text("something else")
    unpack(folder, tmp_path / "into")
    assert (tmp_path / "into" / "a.py").read_text() == CODE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../outside.py", tarfile.REGTYPE),
        ("/outside.py", tarfile.REGTYPE),
        ("a/../../outside.py", tarfile.REGTYPE),
        ("link.py", tarfile.SYMTYPE),
        ("hard.py", tarfile.LNKTYPE),
        ("device", tarfile.CHRTYPE),
    ],
)
def test_an_archive_writes_nothing_outside(tmp_path, name, kind):
    folder = packed(tmp_path, ("good.py", b"", tarfile.REGTYPE), (name, b"", kind))
    with pytest.raises(CodeError, match="which is no file or folder inside of it"):
        code_folder(folder, tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: b"no archive", id="other"),
        pytest.param(lambda content: content[:5000], id="cut"),
        pytest.param(lambda content: content[:4000] + content[8000:], id="without-the-middle"),
        pytest.param(lambda content: content[:5000] + b"xy" + content[5002:], id="damaged"),
        pytest.param(lambda content: content[:-1], id="without-its-checksum"),
    ],
)
def test_an_archive_that_is_none(tmp_path, spoil):
    folder = packed(tmp_path, ("a.py", random.Random(1).randbytes(9999), tarfile.REGTYPE))
    file = folder / "code.tar.gz"
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(CodeError, match=r"code\.tar\.gz can't be unpacked: .+ Make it with"):
        code_folder(folder, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_an_archive_that_would_fill_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("fulmen.topology.code.packing.MAX_UNPACKED_BYTES", 10)
    folder = packed(tmp_path, ("a", b"12345678901", tarfile.REGTYPE))
    with pytest.raises(CodeError, match="11 bytes when it is unpacked, but at most 10"):
        code_folder(folder, tmp_path / "into")


def test_what_a_newer_operator_knows_is_left_out(tmp_path, code):
    newer = revision(tmp_path, colour="blue", worker={"env": [{"name": "A", "kind": "new"}]})
    assert prepare(newer, code).topology.spec.worker.env[0].name == "A"
    assert topology_of(newer).spec.spouts[0].name == "source"
    with pytest.raises(ValidationFailed):
        topology_of(revision(tmp_path, workers="new"))


def test_mistakes_are_all_told(tmp_path, code):
    wrong = revision(tmp_path, workers=0, spouts=[{"name": "source", "class": "parts.Sourc"}])
    with pytest.raises(ValidationFailed) as caught:
        prepare(wrong, code)
    assert [problem.path for problem in caught.value.problems] == [
        "spec.workers",
        "spec.spouts[0].class",
    ]


def test_settings_that_fulmen_decides_are_refused(tmp_path, code):
    wrong = revision(tmp_path, spark={"conf": {"spark.master": "local"}})
    with pytest.raises(ValidationFailed) as caught:
        prepare(wrong, code)
    assert caught.value.problems[0].path == "spec.spark.conf[spark.master]"


def test_an_empty_checkpoint_in_which_something_was_committed(tmp_path, code):
    with pytest.raises(CheckpointLost) as caught:
        prepare(revision(tmp_path, last_batch=17), code)
    assert "batch 17 was committed there" in str(caught.value)


@pytest.mark.parametrize(("last_batch", "kind"), [(0, Denied), (17, Unreachable)])
def test_a_checkpoint_that_can_t_be_read_any_more_is_an_outage(
    tmp_path, code, monkeypatch, last_batch, kind
):
    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(kind, match="permission denied"):
        known_tasks((tmp_path / "checkpoint").as_uri(), parse(document(tmp_path)), last_batch)


def test_the_checkpoint_of_another_topology(tmp_path, code):
    store = Store.open((tmp_path / "checkpoint").as_uri())
    CommitLog(store, "bakery", "somebody").claim()
    uri = (tmp_path / "checkpoint").as_uri()
    with pytest.raises(CheckpointMismatch) as caught:
        prepare(revision(tmp_path), code)
    assert str(caught.value) == (
        f"checkpoint {uri} is that of topology 'bakery', not of 'blue/shop'. Give each topology a"
        " checkpoint of its own (spec.checkpoint); or, to go on from the state of that one, which"
        " then has none any more, set spec.checkpoint.takeOver to 'bakery'."
    )


def test_no_code_is_mounted(tmp_path):
    assert code_folder(tmp_path / "nothing") is None
    (tmp_path / "..data").mkdir()
    assert code_folder(tmp_path) is None


def test_a_preflight_of_a_good_candidate(tmp_path, code):
    file = tmp_path / "candidate.json"
    file.write_text(Candidate(topology=document(tmp_path)).to_json())
    assert preflight(file, code) == (
        0,
        preflight(file, code)[1].model_copy(
            update={"reason": "Valid", "message": "topology 'shop' is valid"}
        ),
    )
    assert not (tmp_path / "checkpoint").exists()


def test_a_preflight_of_a_bad_candidate(tmp_path, code):
    (code / "..2026" / "parts.py").write_text("import nonsense_that_is_not_there")
    file = tmp_path / "candidate.json"
    file.write_text(Candidate(topology=document(tmp_path)).to_json())
    found, ended = preflight(file, code)
    assert (found, ended.reason) == (2, "InvalidSpec")
    assert "No module named 'nonsense_that_is_not_there'" in ended.errors[0].reason


def test_a_preflight_finds_state_that_the_new_code_cannot_read(tmp_path, code, monkeypatch):
    monkeypatch.setitem(sys.modules, "gone_parts", ModuleType("gone_parts"))
    gone = type("Gone", (), {"__module__": "gone_parts"})
    sys.modules["gone_parts"].Gone = gone
    log = CommitLog(Store.open((tmp_path / "checkpoint").as_uri()), "blue/shop", "somebody")
    log.claim()
    engine = pickle.dumps({"other_classes": ["gone_parts:Gone"]})
    fields = pickle.dumps(({"last": gone()}, {}, {}))
    journals = {"engine": Update(engine), "fields": Update(fields)}
    layout = json.dumps(Layout({"source": 3}, {"source/0": 1}).to_json()).encode()
    updates = {"source/0": journals}
    log.commit(log.draft(tag="a", clock=0.0, updates=updates, sections={LAYOUT: layout}))
    monkeypatch.delitem(sys.modules, "gone_parts")
    file = tmp_path / "candidate.json"
    file.write_text(Candidate(topology=document(tmp_path)).to_json())
    found, ended = preflight(file, code)
    assert (found, ended.reason) == (2, "InvalidSpec")
    assert ended.errors[0].reason == (
        "component 'source', task 0: fields 'last': ModuleNotFoundError: No module named"
        " 'gone_parts'"
    )
    assert ended.errors[0].path == "spec.spouts[0]"


OPTIONS = """


from pydantic import BaseModel


class Options(BaseModel, extra="forbid"):
    size: int


Source.config_model = Options
"""


def test_a_preflight_validates_the_config_of_components(tmp_path, code):
    parts = code / "..2026" / "parts.py"
    parts.write_text(parts.read_text() + OPTIONS)
    file = tmp_path / "candidate.json"
    content = document(tmp_path)
    content["spec"]["spouts"][0]["config"] = {"siez": 1}
    file.write_text(Candidate(topology=content).to_json())
    found, ended = preflight(file, code)
    assert (found, ended.reason) == (2, "InvalidSpec")
    assert [error.path for error in ended.errors] == ["spec.spouts[0].config.siez"]


# ---- packages that came with the code


USING = CODE.replace(
    "from fulmen import Spout", "from fulmen import Spout\nfrom greet_{n} import w"
)


def with_packages(tmp_path, n, **made_for):
    """A mounted archive with code that imports a package, and with the package."""
    files = {
        "parts.py": USING.format(n=n),
        f".packages/greet_{n}/__init__.py": "w = 1",
        ".packages/made-for.json": json.dumps(made_for),
    }
    members = [(name, text.encode(), tarfile.REGTYPE) for name, text in files.items()]
    return packed(tmp_path, *members[: 1 if not made_for else 3])


@pytest.mark.parametrize("n", [1, 2])
def test_a_preflight_knows_which_imports_are_missing(tmp_path, n):
    folder = with_packages(tmp_path, n, **({"python": ""} if n == 1 else {}))
    file = tmp_path / "candidate.json"
    file.write_text(Candidate(topology=document(tmp_path)).to_json())
    found, ended = preflight(file, folder, into=tmp_path / "into")
    if n == 1:
        assert (found, ended.reason) == (0, "Valid")
    else:
        assert (found, ended.reason) == (2, "InvalidSpec")
        [error] = ended.errors
        assert error.path == "spec.spouts[0].class"
        assert "No module named 'greet_2'" in error.reason
        assert "fulmen manifest FILE --wheels takes it along" in error.cure


@pytest.mark.parametrize(
    ("made_for", "words"),
    [
        ({"python": "2.7"}, r"compiled for Python 2\.7, but the image has 3\.\d+\. .*--python-v"),
        ({"machine": "s390x"}, r"compiled for s390x, but the node is .* --platform"),
        ({"versions": {"numpy": "1.0"}}, r"that Fulmen runs on: numpy 1\.0 \(the image: 2\."),
        ({"versions": 1, "kind": "new"}, r"made-for\.json can't be read"),
    ],
)
def test_packages_that_can_not_be_used_here(tmp_path, made_for, words):
    with pytest.raises(CodeError, match=words):
        code_folder(with_packages(tmp_path, 3, **made_for), tmp_path / "into")


# ---- preflights that open instances

DIARY = """
from fulmen import Bolt, Spout


def note(what):
    with open({diary!r}, "a") as file:
        print(what, file=file)


class Source(Spout):
    outputs = ["n"]

    def open(self, conf, context, collector):
        note(f"open {{context.component}} {{conf}}")

    def next_tuple(self): ...

    def close(self):
        note("close")


class Pinned(Source):
    pinned = True


class Sink(Bolt):
    def prepare(self, conf, context, collector):
        note(f"prepare {{context.component}}")

    def execute(self, tup): ...

    def cleanup(self):
        note("cleanup")
"""
ALL = {"type": "all"}
COMPONENTS = {
    "config": {"shop": 7},
    "spouts": [
        {"name": "source", "class": "parts.Source", "numTasks": 3},
        {"name": "pinned", "class": "parts.Pinned"},
    ],
    "bolts": [
        {
            "name": "sink",
            "class": "parts.Sink",
            "parallelism": 2,
            "inputs": [{"from": name, "grouping": ALL} for name in ("source", "pinned")],
        }
    ],
}


TRANSACTIONAL = """
import fulmen
from fulmen import BatchBolt, Committer, PartitionedTransactionalSpout


def note(what):
    with open({diary!r}, "a") as file:
        print(what, file=file)


class Rows(PartitionedTransactionalSpout):
    outputs = ["tx", "row"]

    def get_coordinator(self, conf, context):
        note(f"get_coordinator {{context.component}} {{conf}}")
        return Coordinator()

    def get_emitter(self, conf, context):
        note(f"get_emitter {{context.component}} {{conf}}")
        return Emitter()


class Coordinator(PartitionedTransactionalSpout.Coordinator):
    def num_partitions(self):
        raise AssertionError("no transaction is to be begun")

    is_ready = num_partitions

    def close(self):
        note("coordinator close")


class Emitter(PartitionedTransactionalSpout.Emitter):
    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata): ...

    def emit_partition_batch(self, attempt, collector, partition, metadata): ...

    def close(self):
        note("emitter close")


class Write(BatchBolt, Committer):
    def prepare(self, conf, context, collector, attempt):
        note(f"prepare {{context.component}} {{attempt}}")

    def execute(self, tup): ...

    def finish_batch(self):
        note("finish_batch")
"""
TRANSACTED = {
    "config": {"shop": 7},
    "spouts": [],
    "transactional": [{"name": "rows", "class": "parts.Rows", "parallelism": 2}],
    "bolts": [
        {"name": "write", "class": "parts.Write", "inputs": [{"from": "rows", "grouping": ALL}]}
    ],
}


@pytest.fixture
def tried(tmp_path, code):
    """Runs a preflight; gives its end, and what its instances were called for."""
    diary = tmp_path / "diary"
    diary.touch()

    def run(opens="", replace=("", ""), text=DIARY, components=COMPONENTS):
        text = text.format(diary=str(diary)).replace(*replace)
        (code / "..2026" / "parts.py").write_text(text)
        file = tmp_path / "candidate.json"
        file.write_text(Candidate(topology=document(tmp_path, **components)).to_json())
        _, ended = preflight(file, code, opens)
        return ended, diary.read_text().splitlines()

    return run


def test_a_preflight_opens_nothing_unless_it_is_told_to(tried):
    ended, calls = tried()
    assert (ended.reason, calls) == ("Valid", [])


def test_a_preflight_opens_and_closes_one_instance_of_each_component_of_a_worker(tried):
    ended, calls = tried(WORKER)
    assert ended.reason == "Valid"
    assert calls == ["open source {'shop': 7}", "close", "prepare sink", "cleanup"]


def test_a_preflight_opens_pinned_spouts_where_the_driver_is(tried):
    ended, calls = tried(DRIVER)
    assert (ended.reason, calls) == ("Valid", ["open pinned {'shop': 7}", "close"])


def test_what_instances_raise_refuses_a_candidate_and_the_others_are_opened_all_the_same(tried):
    ended, calls = tried(WORKER, ('note("cleanup")', "raise KeyError('shop')"))
    assert ended.reason == "InvalidSpec"
    (mistake,) = ended.errors
    assert (mistake.path, mistake.reason) == ("spec.bolts[0].class", "cleanup: KeyError: 'shop'")
    ended, calls = tried(WORKER, ('note(f"open', 'raise ValueError("no key"); note(f"open'))
    (mistake,) = ended.errors
    assert (mistake.path, mistake.reason) == ("spec.spouts[0].class", "open: ValueError: no key")
    assert mistake.cure == ""
    assert calls[-2:] == ["prepare sink", "cleanup"]


def test_a_service_that_is_away_refuses_a_candidate_and_can_be_tried_again(tried):
    away = ('note(f"prepare', "raise ConnectionRefusedError('shop:5432'); note(f\"prepare")
    ended, _ = tried(WORKER, away)
    (mistake,) = ended.errors
    assert mistake.reason == "prepare: ConnectionRefusedError: shop:5432"
    assert "change spec.restartNonce" in mistake.cure


@pytest.fixture
def transacted(tried):
    """The same of a transactional topology."""

    def run(opens, replace=("", "")):
        return tried(opens, replace, TRANSACTIONAL, TRANSACTED)

    return run


def test_a_preflight_opens_an_emitter_and_prepares_batch_bolts_for_no_transaction(transacted):
    ended, calls = transacted(WORKER)
    assert ended.reason == "Valid"
    assert calls == ["get_emitter rows {'shop': 7}", "emitter close", "prepare write 0:0"]


def test_a_preflight_opens_a_coordinator_where_the_driver_is(transacted):
    ended, calls = transacted(DRIVER)
    assert ended.reason == "Valid"
    assert calls == ["get_coordinator rows {'shop': 7}", "coordinator close"]


SOURCE = "transactional[0]"
NO_KEY, AWAY, NOT_NOW = "ValueError('no key')", "ConnectionRefusedError('db')", "FailedException()"


@pytest.mark.parametrize(
    ("opens", "place", "raises", "path", "reason", "is_away"),
    [
        (WORKER, "prepare", NO_KEY, "bolts[0]", "prepare: ValueError: no key", False),
        (WORKER, "prepare", AWAY, "bolts[0]", "prepare: ConnectionRefusedError: db", True),
        (WORKER, "prepare", f"fulmen.{NOT_NOW}", "bolts[0]", "prepare: FailedException", True),
        (WORKER, "get_emitter", NO_KEY, SOURCE, "get_emitter: ValueError: no key", False),
        (
            DRIVER,
            "get_coordinator",
            NO_KEY,
            SOURCE,
            "coordinator, get_coordinator: ValueError: no key",
            False,
        ),
        (
            DRIVER,
            "get_coordinator",
            AWAY,
            SOURCE,
            "coordinator, get_coordinator: ConnectionRefusedError: db",
            True,
        ),
        (
            DRIVER,
            "get_coordinator",
            f"fulmen.{NOT_NOW}",
            SOURCE,
            "coordinator, get_coordinator: FailedException",
            True,
        ),
    ],
)
def test_what_a_transactional_class_raises_refuses_a_candidate(
    transacted, opens, place, raises, path, reason, is_away
):
    ended, _ = transacted(opens, (f'note(f"{place} ', f'raise {raises}; note(f"{place} '))
    assert ended.reason == "InvalidSpec"
    (mistake,) = ended.errors
    assert (mistake.path, mistake.reason) == (f"spec.{path}.class", reason)
    assert ("change spec.restartNonce" in mistake.cure) == is_away


def test_what_a_coordinator_raises_when_it_is_closed_refuses_a_candidate(transacted):
    ended, _ = transacted(
        DRIVER, ('note("coordinator', "raise KeyError('shop'); note(\"coordinator")
    )
    (mistake,) = ended.errors
    assert mistake.reason == "coordinator, close: KeyError: 'shop'"
