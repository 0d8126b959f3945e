"""The format of a checkpoint is what its sample shows.

`data/format-1` is what `write_sample` wrote with format 1. When the format changes, add
`data/format-2` with

    python tests/unit/checkpoint/test_formats.py tests/unit/checkpoint/data/format-2

and leave the older ones alone: each test that reads a sample reads all of them.
"""

import shutil
import sys
from pathlib import Path

import pytest

from fulmen.checkpoint import CommitLog, Store, Update, load_many, read_commit
from fulmen.checkpoint.names import state_file_name
from fulmen.checkpoint.record import VERSION, encode_state

DATA = Path(__file__).parent / "data"
VERSIONS = sorted(path.name for path in DATA.iterdir() if path.is_dir())


def write_sample(store):
    """Use all of the format: two drivers, inline payloads and a file, sections, a removed task."""
    tags = iter(["claim1", "claim2"])
    one = CommitLog(store, "word-count", "pod-a 17 2026-03-01T12:00:00Z", tags=tags.__next__)
    one.claim()
    file = state_file_name(2, "f00d", "count/0", "state.3")
    store.put(file, encode_state(b"\0\1\2 big"))
    updates = {
        "count/0": {"fields": Update(b"\x80\5K*."), "state.3": Update(None, file)},
        "gone/0": {"fields": Update(b"x")},
    }
    sections = {"plan": b'{"workers": 2}', "gone": b""}
    one.commit(
        one.draft(
            tag="f00d",
            clock=0.25,
            updates=updates,
            sections=sections,
            transient={"deliveries": b"\0"},
        )
    )
    two = CommitLog(store, "word-count", "pod-b 17 2026-03-01T12:01:00Z", tags=tags.__next__)
    two.claim()
    updates = {
        "count/0": {"fields": Update(b"new", None, 4), "state.3": Update(b"more")},
        "count/\u00e9": {"fields": Update(b"")},
    }
    draft = two.draft(
        tag="beef",
        clock=1.5,
        updates=updates,
        sections={"gone": None},
        transient={"inbox": b"i", "deliveries": b""},
        removed_tasks=["gone/0"],
    )
    two.commit(draft)


@pytest.fixture(params=VERSIONS)
def store(request, tmp_path):
    shutil.copytree(DATA / request.param, tmp_path / "checkpoint")
    return Store.open(str(tmp_path / "checkpoint"))


def test_the_state_is_read(store):
    log = CommitLog(store, "word-count", "reader")
    manifest = log.manifest
    assert (manifest.number, manifest.tag, manifest.epoch, manifest.clock) == (4, "beef", 2, 1.5)
    assert manifest.driver == "pod-b 17 2026-03-01T12:01:00Z"
    assert manifest.sections == {"plan": b'{"workers": 2}'}
    assert manifest.transient == {"inbox": b"i", "deliveries": b""}
    assert manifest.claims == [1, 3]
    assert load_many(store, manifest, manifest.tasks) == {
        "count/0": {"fields": [b"new"], "state.3": [b"\0\1\2 big", b"more"]},
        "count/\u00e9": {"fields": [b""]},
    }


def test_single_commits_are_read(store):
    assert read_commit(store, 3).claim
    assert read_commit(store, 3).transient == {"deliveries": b"\0"}
    assert read_commit(store, 4).removed_tasks == ("gone/0",)
    assert read_commit(store, 2).updates["count/0"]["fields"] == Update(b"\x80\5K*.", None, 0)


def test_a_sample_goes_on_in_the_present_format(store):
    log = CommitLog(store, "word-count", "three")
    assert log.claim().number == 5
    log.commit(log.draft(tag="t", clock=2.0, updates={"count/0": {"fields": Update(b"newer")}}))
    log.collect()
    after = CommitLog(store, "word-count", "four").manifest
    assert load_many(store, after, ["count/0"])["count/0"]["fields"] == [b"new", b"newer"]


def test_the_present_format_is_what_the_newest_data_shows(tmp_path):
    """If this fails and the format was meant to change: raise VERSION, and add data as above."""
    assert VERSIONS[-1] == f"format-{VERSION}"
    write_sample(Store.open(str(tmp_path)))
    expected = DATA / VERSIONS[-1]
    files = [path.relative_to(expected) for path in expected.rglob("*") if path.is_file()]
    assert len(files) == 5
    for file in files:
        assert (tmp_path / file).read_bytes() == (expected / file).read_bytes(), file


if __name__ == "__main__":
    write_sample(Store.open(sys.argv[1]))
    shutil.rmtree(Path(sys.argv[1]) / ".tmp")
