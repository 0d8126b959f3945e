"""What every kind of store does, and which URIs there are."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from fulmen.checkpoint import Store
from fulmen.errors import AlreadyExists, CheckpointError, NotFound

_names = itertools.count()


@pytest.fixture(params=["file", "file-no-fsync", "path", "memory"])
def store(request, tmp_path):
    folder = tmp_path / "made" / "by the store"
    return Store.open(
        {
            "file": folder.as_uri(),
            "file-no-fsync": f"{folder.as_uri()}?fsync=false",
            "path": str(folder),
            "memory": f"memory://test_store/{next(_names)}",
        }[request.param]
    )


def test_what_was_put_can_be_read_and_listed(store):
    store.put("commits/1", b"one")
    store.put("state/a=2F0.x", b"")
    store.put("commits/10", b"ten")
    store.put("deeper/b/c", b"c")
    assert store.get("commits/1") == b"one"
    assert store.get("state/a=2F0.x") == b""
    assert store.list("commits/") == ["commits/1", "commits/10"]
    assert store.list("deeper/") == ["deeper/b/c"]
    assert store.list("") == ["commits/1", "commits/10", "deeper/b/c", "state/a=2F0.x"]
    assert store.list("nothing/") == []
    assert store.get_many(["commits/10", "commits/1", "commits/10"]) == [b"ten", b"one", b"ten"]
    assert store.get_many([]) == []


def test_a_part_of_an_object_can_be_read(store):
    store.put("state/x", b"0123456789")
    assert store.get_range("state/x", 0, 3) == b"012"
    assert store.get_range("state/x", 4, 3) == b"456"
    assert store.get_range("state/x", 7, 100) == b"789"
    assert store.get_range("state/x", 10, 3) == store.get_range("state/x", 99, 3) == b""
    with pytest.raises(NotFound):
        store.get_range("state/y", 0, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7])
def test_a_large_object_can_be_read_piece_by_piece(store, size):
    store.put("code.tar.gz", bytes(range(size)))
    chunks = list(store.get_chunks("code.tar.gz", 3))
    assert b"".join(chunks) == bytes(range(size))
    assert [len(chunk) for chunk in chunks[:-1]] == [3] * (len(chunks) - 1)
    with pytest.raises(NotFound):
        next(store.get_chunks("nothing"))


def test_an_empty_store_can_be_listed_and_read(store):
    assert store.list("") == []
    store.delete(["a"])
    with pytest.raises(NotFound):
        store.get("a")


def test_an_object_is_never_overwritten(store):
    store.put("a/b", b"first")
    with pytest.raises(AlreadyExists) as caught:
        store.put("a/b", b"second")
    assert str(caught.value) == (
        f"checkpoint {store.uri}: 'a/b' exists already, and objects are never overwritten. Another"
        " process wrote it: use another name, or read it first."
    )
    assert store.get("a/b") == b"first"


def test_putting_the_same_bytes_twice_fails_too(store):
    store.put("a", b"same")
    with pytest.raises(AlreadyExists):
        store.put("a", b"same")


def test_what_is_missing_is_said(store):
    store.put("a", b"")
    for read in (lambda: store.get("b"), lambda: store.get_many(["a", "b"])):
        with pytest.raises(NotFound) as caught:
            read()
        assert (caught.value.store, caught.value.key) == (store.uri, "b")
    assert str(caught.value) == (
        f"checkpoint {store.uri}: there is no 'b'. Either it was never written, or it was deleted"
        " because a newer commit made it superfluous: read the newest commit."
    )


def test_delete_takes_what_is_there(store):
    for key in ("a", "b", "f/c"):
        store.put(key, b"")
    store.delete(["a", "missing", "f/c", "f/missing"])
    store.delete([])
    assert store.list("") == ["b"]
    store.put("a", b"again")
    assert store.get("a") == b"again"


def test_big_objects(store):
    data = bytes(range(256)) * 40_000  # 10 MB: several writes, and no multipart upload
    store.put("big", data)
    assert store.get("big") == data
    with pytest.raises(AlreadyExists):
        store.put("big", data)


def test_one_of_many_threads_wins(store):
    def put(me):
        try:
            store.put("a/b", me * 1000)
        except AlreadyExists:
            return None
        return me * 1000

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(put, [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]))
    assert [won for won in results if won is not None] == [store.get("a/b")]


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "..", "a/../b", ".tmp/a", "a/.b", "a b", "a%2F", "a\n", "ä"]
)
def test_keys_that_some_store_would_change_are_refused(store, key):
    for use in (store.get, lambda key: store.put(key, b""), lambda key: store.delete([key])):
        with pytest.raises(ValueError, match="must be names of"):
            use(key)


@pytest.mark.parametrize("prefix", ["a", "/", "../", "a//"])
def test_prefixes_are_folders(store, prefix):
    with pytest.raises(ValueError, match="must be empty or a key followed by '/'"):
        store.list(prefix)


# ---- URIs --------------------------------------------------------------------------------------


def test_memory_is_shared_by_name():
    Store.open("memory://shared/x").put("a", b"1")
    assert Store.open("memory://shared/x").get("a") == b"1"
    assert Store.open("memory://shared/y").list("") == []


def test_a_file_uri_is_decoded_and_a_plain_path_is_not(tmp_path):
    Store.open(f"file://{tmp_path}/with%20space").put("a", b"")
    Store.open(f"file://localhost{tmp_path}/x").put("a", b"")
    Store.open(f"{tmp_path}/100%20").put("a", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["100%20", "with space", "x"]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        pytest.param(
            "",
            "checkpoint '': the URI is empty. Write file:///a/folder, say.",
            id="empty",
        ),
        pytest.param(
            "s3://me:secret@bucket/prefix",
            "checkpoint s3://…: a URI is shown in logs and in the topology's status,"
            " so it must hold no user and no password. Leave them out, and set the environment"
            " variables that the store's own tools read (AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY for s3): on Kubernetes from a Secret, in env of driver and"
            " worker.",
            id="password",
        ),
        pytest.param(
            "hdfs://name/path",
            "checkpoint hdfs://name/path: there is no store of kind 'hdfs'. There are file, s3, gs,"
            " az and memory.",
            id="unknown",
        ),
        pytest.param(
            "file://folder/x",
            "checkpoint file://folder/x: it does not name a folder. Write three slashes and an"
            " absolute path: file:///a/folder.",
            id="two-slashes",
        ),
        pytest.param(
            "file:///x?sync=no",
            "checkpoint file:///x: the only option of a folder is ?fsync=false. Remove what follows"
            " the path.",
            id="option",
        ),
        pytest.param(
            "file:///x?fsync=0",
            "checkpoint file:///x: the only option of a folder is ?fsync=false. Remove what follows"
            " the path.",
            id="option-value",
        ),
        pytest.param(
            "s3://bucket/x?secret_access_key=secret",
            "checkpoint s3://bucket/x: s3:// takes no options. Remove what follows the path.",
            id="cloud-option",
        ),
        pytest.param(
            "gs:///prefix",
            "checkpoint gs:///prefix: the name after gs:// is missing. Write gs://name/prefix.",
            id="no-bucket",
        ),
        pytest.param(
            "s3://[my-bucket]/x",
            "checkpoint s3://…: the URI can't be understood. A name of a bucket has no brackets.",
            id="brackets",
        ),
        pytest.param(
            "s3://me:secret@[bucket",
            "checkpoint s3://…: the URI can't be understood. A name of a bucket has no brackets.",
            id="a-bracket-and-a-password",
        ),
        pytest.param(
            "s3://me:sec/ret@bucket/x",
            "checkpoint s3://…: a URI is shown in logs and in the topology's status, so it must"
            " hold no user and no password. Leave them out, and set the environment variables that"
            " the store's own tools read (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3): on"
            " Kubernetes from a Secret, in env of driver and worker.",
            id="password-with-a-slash",
        ),
    ],
)
def test_other_uris_are_refused(uri, message):
    with pytest.raises(CheckpointError) as caught:
        Store.open(uri)
    assert str(caught.value) == message
    assert "secret" not in str(caught.value)


def test_incomplete_environment_is_said_at_once(monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(CheckpointError) as caught:
        Store.open("az://container/prefix")
    assert str(caught.value) == (
        "checkpoint az://container/prefix: the settings in the environment are not complete"
        " (Generic MicrosoftAzure error: Account must be specified). The variables that count are"
        " AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, or the pod's workload identity."
    )
