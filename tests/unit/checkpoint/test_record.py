"""The format, and how commits add up to a manifest."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.checkpoint import Commit, Manifest, Ref, Update, state_file_name
from fulmen.checkpoint.manifest import CLAIMS_KEPT
from fulmen.checkpoint.names import number_in
from fulmen.checkpoint.record import decode, decode_state, encode, encode_state
from fulmen.errors import CheckpointError

WHERE = "s3://bucket/x, 'commits/00000000000000000007'"


def commit(number, **changes):
    fields = {"tag": "t", "epoch": 1, "driver": "d", "clock": 0.5, "topology": "wc", "base": 1}
    return Commit(number=number, **(fields | changes))


def file_of(number, journal="s"):
    return state_file_name(number, "t", "a/0", journal)


def inline(number, journal="s", task="a/0"):
    return Ref(number, (task, journal))


# ---- bytes -------------------------------------------------------------------------------------

texts = st.text(max_size=5)
payloads = st.none() | st.binary(max_size=9)
updates = st.builds(Update, data=payloads, file=st.none(), keep_from=st.integers(0, 7))
refs = st.lists(st.builds(Ref, st.integers(1, 6), texts | st.tuples(texts, texts)), max_size=3)
journals = st.dictionaries(texts, st.dictionaries(texts, refs, max_size=3), max_size=3)
manifests = st.builds(
    Manifest,
    number=st.just(6),
    tag=texts,
    epoch=st.integers(0, 9),
    driver=texts,
    clock=st.floats(allow_nan=False),
    topology=texts,
    base=st.integers(0, 6),
    sections=st.dictionaries(texts, st.binary(max_size=9), max_size=3),
    transient=st.dictionaries(texts, st.binary(max_size=9), max_size=3),
    tasks=journals,
    claims=st.lists(st.integers(1, 6), max_size=3),
)
commits = st.builds(
    Commit,
    number=st.just(7),
    tag=texts,
    epoch=st.integers(0, 2**63),
    driver=texts,
    clock=st.floats(allow_nan=False),
    topology=texts,
    base=st.integers(1, 7),
    claim=st.booleans(),
    updates=st.dictionaries(texts, st.dictionaries(texts, updates, max_size=3), max_size=3),
    sections=st.dictionaries(texts, st.none() | st.binary(max_size=9), max_size=3),
    transient=st.dictionaries(texts, st.binary(max_size=9), max_size=3),
    removed_tasks=st.lists(texts, max_size=3).map(tuple),
    links=journals,
    manifest=st.none() | manifests,
)


@given(commits)
def test_a_commit_comes_back_as_it_was(written):
    assert decode(WHERE, encode(written)) == written


def test_references_to_payloads_of_the_own_task_take_no_room():
    refs = [Ref(1, ("a/0", "s"))]
    own = encode(commit(7, base=7, manifest=Manifest(number=6, tasks={"a/0": {"s": refs}})))
    other = encode(commit(7, base=7, manifest=Manifest(number=6, tasks={"a/0": {"t": refs}})))
    assert len(other) - len(own) == len(b"_a/0_s_")


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.binary(max_size=100))
def test_a_state_file_comes_back_as_it_was(data):
    assert decode_state(WHERE, encode_state(data)) == data


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.data())
def test_no_change_of_a_stored_byte_goes_unnoticed(data):
    stored = bytearray(encode(commit(7, updates={"a/0": {"s": Update(b"payload")}})))
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CheckpointError, match="'commits/00000000000000000007' is damaged: "):
        decode(WHERE, bytes(stored))


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.integers(0, 50))
def test_a_truncated_object_is_noticed(length):
    with pytest.raises(CheckpointError, match="is damaged"):
        decode(WHERE, encode(commit(7))[:length])


def test_a_damaged_object_is_named():
    with pytest.raises(CheckpointError) as caught:
        decode(WHERE, encode(commit(7))[:-1])
    assert str(caught.value) == (
        "checkpoint s3://bucket/x, 'commits/00000000000000000007' is damaged: its 141 bytes are not"
        " those that were written (magic b'FLMC', should be b'FLMC'; checksum wrong). Restore the"
        " object from a copy of the store, or start the topology with an empty checkpoint, which"
        " loses its state."
    )


def test_a_state_file_is_no_commit():
    with pytest.raises(CheckpointError) as caught:
        decode(WHERE, encode_state(b"x"))
    assert "(magic b'FLMS', should be b'FLMC'; checksum right)" in str(caught.value)


def test_a_damaged_state_file_is_named():
    with pytest.raises(CheckpointError, match="'commits/00000000000000000007' is damaged: "):
        decode_state(WHERE, encode_state(b"x")[:-1])


def test_a_newer_format_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("fulmen.checkpoint.record.VERSION", 2)
        written = encode(commit(7))
    with pytest.raises(CheckpointError) as caught:
        decode(WHERE, written)
    assert str(caught.value) == (
        "checkpoint s3://bucket/x, 'commits/00000000000000000007' was written by a newer Fulmen:"
        " format 2, and this one reads up to 1. Run the topology with the newer version."
    )


@pytest.mark.parametrize(
    ("update", "message"),
    [
        pytest.param(Update(b"x", file_of(7)), "must come without data", id="both"),
        pytest.param(Update(None, file_of(6)), "must come without data", id="other-commit"),
        pytest.param(Update(b"x", None, 8), "keep_from 8 is a later commit", id="keep-from"),
    ],
)
def test_updates_that_garbage_collection_could_not_follow_are_refused(update, message):
    with pytest.raises(ValueError, match=message):
        encode(commit(7, updates={"a/0": {"s": update}}))


# ---- names -------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.text(max_size=80), st.text(max_size=80)), unique=True, min_size=2),
)
def test_state_files_of_different_journals_have_different_names(pairs):
    names = {state_file_name(7, "t", task, journal) for task, journal in pairs}
    assert len(names) == len(pairs)
    for name in names:
        assert len(name.rpartition("/")[2]) <= 255
        assert number_in(name) == 7


def test_state_file_names_can_be_read_and_sort_by_commit():
    name = state_file_name(7, "9f3c", "count-words/0", "fields.x")
    assert name == "state/00000000000000000007.9f3c.count-words=2F0.fields=2Ex"
    assert state_file_name(10, "0", "a", "a") > name


def test_names_keep_letters_and_other_characters_are_their_bytes():
    name = state_file_name(7, "F00d", "Count/\u00e9", "s")
    assert name == "state/00000000000000000007.F00d.Count=2F=C3=A9.s"


def test_long_names_end_with_a_digest_of_all_of_it():
    prefix = "state/00000000000000000007.t."
    longest = state_file_name(7, "t", "a" * 170, "b" * 9)
    assert longest == f"{prefix}{'a' * 170}.{'b' * 9}"
    digest = hashlib.sha256(f"{'a' * 170}.{'b' * 10}".encode()).hexdigest()
    longer = state_file_name(7, "t", "a" * 170, "b" * 10)
    assert longer == f"{prefix}{'a' * 147}+{digest[:32]}"
    assert len(longer) == len(longest)


@pytest.mark.parametrize("tag", ["", "a-b", "a.b", "a/b", "x" * 33])
def test_tags_are_plain(tag):
    with pytest.raises(ValueError, match="must be 1 to 32 letters and digits"):
        state_file_name(7, tag, "a", "s")


@pytest.mark.parametrize(
    "key", ["commits/7", "commits/00000000000000000007.bak", "state/x", "state/1.a", "parked/x"]
)
def test_other_names_have_no_number(key):
    assert number_in(key) is None


# ---- the manifest ------------------------------------------------------------------------------


def test_payloads_are_appended_dropped_and_replaced():
    manifest = Manifest()
    manifest.apply(commit(1, updates={"a/0": {"s": Update(b"1"), "t": Update(b"1")}}))
    manifest.apply(commit(2, updates={"a/0": {"s": Update(None, file_of(2))}}))
    manifest.apply(commit(3, updates={"a/0": {"s": Update(b"3")}}))
    t = [inline(1, "t")]
    assert manifest.tasks == {"a/0": {"s": [inline(1), Ref(2, file_of(2)), inline(3)], "t": t}}
    manifest.apply(commit(4, updates={"a/0": {"s": Update(b"4", None, 3)}}))
    assert manifest.tasks == {"a/0": {"s": [inline(3), inline(4)], "t": t}}
    manifest.apply(commit(5, updates={"a/0": {"s": Update(b"5", None, 5)}}))
    assert manifest.tasks == {"a/0": {"s": [inline(5)], "t": t}}
    manifest.apply(commit(6, updates={"a/0": {"s": Update(None, None, 6)}}))
    assert manifest.tasks == {"a/0": {"t": t}}
    manifest.apply(commit(7, updates={"a/0": {"t": Update(keep_from=2), "u": Update()}}))
    assert manifest.tasks == {}


def test_a_removed_task_is_gone_before_updates_apply():
    manifest = Manifest()
    manifest.apply(commit(1, updates={t: {"s": Update(b"1")} for t in ("a/0", "a/1")}))
    manifest.apply(
        commit(2, removed_tasks=["a/0", "a/1", "x"], updates={"a/0": {"s": Update(b"2")}})
    )
    assert manifest.tasks == {"a/0": {"s": [inline(2)]}}


def test_sections_stay_and_transient_ones_do_not():
    manifest = Manifest()
    manifest.apply(commit(1, sections={"plan": b"1", "x": b"1"}, transient={"acks": b"1"}))
    assert (manifest.sections, manifest.transient) == ({"plan": b"1", "x": b"1"}, {"acks": b"1"})
    manifest.apply(commit(2, sections={"plan": b"2", "x": None, "y": None}))
    assert (manifest.sections, manifest.transient) == ({"plan": b"2"}, {})


def test_the_header_is_that_of_the_newest_commit():
    manifest = Manifest()
    manifest.apply(commit(1, base=1, claim=True, manifest=Manifest()))
    manifest.apply(commit(2, tag="t2", epoch=3, driver="d2", clock=7.5))
    assert manifest == Manifest(2, "t2", 3, "d2", 7.5, "wc", base=1, claims=[1])


def test_commits_have_to_follow_each_other():
    with pytest.raises(ValueError, match="commit 2 can't follow commit 0"):
        Manifest().apply(commit(2))


def test_what_is_dropped_is_named_once():
    manifest = Manifest()
    both = {"s": Update(b"x"), "t": Update(b"x")}
    full = {"manifest": manifest}
    assert manifest.apply(commit(1, base=1, updates={"a/0": both}, **full)) == ([], [])
    update = {"s": Update(None, file_of(2), 2)}
    assert manifest.apply(commit(2, base=1, updates={"a/0": update})) == ([], [])
    assert manifest.apply(commit(3, base=1)) == ([], [])
    # A new manifest: 2 and 3 hold no payloads and end with the chain, 1 still holds one.
    assert manifest.apply(commit(4, base=4, **full)) == ([], [2, 3])
    update = {"s": Update(b"x", None, 5), "t": Update(b"x", None, 5)}
    assert manifest.apply(commit(5, base=4, updates={"a/0": update})) == ([file_of(2)], [1])
    # In the chain, so it stays until there is a new manifest.
    assert manifest.apply(commit(6, base=4, removed_tasks=["a/0"])) == ([], [])
    assert manifest.apply(commit(7, base=7, **full)) == ([], [4, 5, 6])
    assert (manifest.files, manifest.inline) == ({}, {})


def test_a_commit_is_needed_until_the_last_of_its_payloads_is_dropped():
    manifest = Manifest()
    three = {journal: Update(b"x") for journal in "stu"}
    manifest.apply(commit(1, base=1, updates={"a/0": three}))
    manifest.apply(commit(2, base=2))
    for number, journal, inline in [(3, "s", {1: 2}), (4, "t", {1: 1})]:
        update = {"a/0": {journal: Update(keep_from=number)}}
        assert manifest.apply(commit(number, base=2, updates=update)).commits == []
        assert manifest.inline == inline
    update = {"a/0": {"u": Update(keep_from=5)}}
    assert manifest.apply(commit(5, base=2, updates=update)).commits == [1]
    assert manifest.inline == {}


def test_the_commit_that_holds_the_manifest_is_needed_without_a_payload_as_well():
    manifest = Manifest()
    manifest.apply(commit(1, base=1, updates={"a/0": {"s": Update(b"x")}}))
    update = {"a/0": {"s": Update(keep_from=2)}}
    assert manifest.apply(commit(2, base=1, updates=update)) == ([], [])
    assert manifest.apply(commit(3, base=3)) == ([], [1, 2])


def test_links_move_what_a_removed_task_had():
    manifest = Manifest()
    file = file_of(1)
    updates = {"s": Update(None, file), "t": Update(b"x")}
    manifest.apply(commit(1, base=1, updates={"a/0": updates}))
    manifest.apply(commit(2, base=2))
    both = {"s": [Ref(1, file)], "t": [inline(1, "t")]}
    links = {"b/0": both, "b/1": both}
    assert manifest.apply(commit(3, base=2, removed_tasks=["a/0"], links=links)) == ([], [])
    assert manifest.tasks == links
    assert (manifest.files, manifest.inline) == ({file: 2}, {1: 2})
    assert manifest.apply(commit(4, base=2, removed_tasks=["b/0"])) == ([], [])
    assert manifest.apply(commit(5, base=2, removed_tasks=["b/1"])) == ([file], [1])
    assert (manifest.files, manifest.inline) == ({}, {})


def test_links_come_before_what_the_same_commit_appends_and_may_be_dropped_by_it():
    manifest = Manifest()
    manifest.apply(commit(1, updates={"a/0": {"s": Update(b"1"), "t": Update(b"1")}}))
    links = {"b/0": {"s": [inline(1)], "t": [inline(1, "t")]}}
    updates = {"b/0": {"s": Update(b"2"), "t": Update(b"2", None, 2)}}
    manifest.apply(commit(2, links=links, updates=updates))
    assert manifest.tasks["b/0"] == {
        "s": [inline(1), inline(2, "s", "b/0")],
        "t": [inline(2, "t", "b/0")],
    }
    assert manifest.inline == {1: 3, 2: 2}


def test_old_claims_are_forgotten():
    manifest = Manifest()
    for number in range(1, CLAIMS_KEPT + 11):
        manifest.apply(commit(number, base=number, claim=True))
    assert manifest.claims == list(range(11, CLAIMS_KEPT + 11))
