"""The checkpoint on a real S3 server: several processes, two drivers, answers that get lost."""

import hashlib
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from threading import Thread
from uuid import uuid4

import pytest

from fulmen.checkpoint import CommitLog, Store
from fulmen.checkpoint.record import INLINE_BYTES
from fulmen.errors import AlreadyExists, CheckpointError, Fenced, FulmenError, NotFound
from fulmen.kube.container.fetching import fetched
from fulmen.topology.code.packing import pack
from support.servers.s3 import BUCKET, lossy_proxy
from support.stores.checkpoint import race, saved, stored

BIG = b"b" * INLINE_BYTES


@pytest.fixture
def server(s3_server, monkeypatch):
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def uri(server):
    return server.uri(f"{uuid4().hex}/word-count")


@pytest.fixture
def store(uri):
    return Store.open(uri)


def test_the_five_verbs(store, server):
    store.put("commits/1", b"one")
    store.put("state/a.b=2Fc-d_e+f", b"")
    with pytest.raises(AlreadyExists):
        store.put("commits/1", b"other")
    with pytest.raises(AlreadyExists):
        store.put("commits/1", b"one")
    with pytest.raises(NotFound):
        store.get("commits/2")
    assert store.get("commits/1") == b"one"
    assert (store.get_range("commits/1", 1, 1), store.get_range("commits/1", 1, 9)) == (b"n", b"ne")
    assert store.get_range("commits/1", 3, 1) == store.get_range("commits/1", 9, 1) == b""
    assert store.list("") == ["commits/1", "state/a.b=2Fc-d_e+f"]
    assert store.list("commits/") == ["commits/1"]
    assert store.list("nothing/") == []
    store.delete(["commits/1", "missing"])
    store.delete(["state/a.b=2Fc-d_e+f"])
    assert store.list("") == []
    assert (server.folder / BUCKET).is_dir()


def test_code_is_fetched_as_a_tool_of_s3_has_put_it_there(server, tmp_path, monkeypatch):
    content = tmp_path / "letters.py"
    content.write_text("LETTERS = 'abc'")
    with (server.folder / BUCKET / "code-1.tar.gz").open("wb") as out:
        pack({"letters.py": content}, out)
    packed = (server.folder / BUCKET / "code-1.tar.gz").read_bytes()
    chunks = list(Store.open(f"s3://{BUCKET}").get_chunks("code-1.tar.gz", len(packed)))
    assert chunks == [packed]  # nothing is asked for behind the end
    place = {
        "FULMEN_CODE_URI": server.uri("code-1.tar.gz"),
        "FULMEN_CODE_SHA256": hashlib.sha256(packed).hexdigest(),
    }
    folder = fetched(place, tmp_path / "code")
    assert (folder / "letters.py").read_text() == content.read_text()
    with pytest.raises(FulmenError, match=r"^spec\.code\.uri: there is no s3://"):
        fetched({**place, "FULMEN_CODE_URI": server.uri("code-2.tar.gz")}, tmp_path / "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(FulmenError, match=r"can't be read: .*access denied\. .*restartNonce"):
        fetched(place, tmp_path / "other")


def test_more_objects_than_one_page_of_a_list_holds(store):
    keys = [f"state/{number:020d}.t.a.s" for number in range(1100)]
    for key in keys:
        store.put(key, key.encode())
    assert store.list("state/") == keys
    assert store.get_many(keys[::-10]) == [key.encode() for key in keys[::-10]]
    store.delete(keys)
    assert store.list("") == []


def test_a_big_object(store):
    data = bytes(range(256)) * 100_000
    store.put("state/big", data)
    assert store.get("state/big") == data
    with pytest.raises(AlreadyExists):
        store.put("state/big", data[::-1])


def test_of_several_processes_exactly_one_wins_each_key(uri, store):
    keys = [f"commits/{number}" for number in range(50)]
    processes = 3
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        runs = [pool.submit(race, uri, keys, f"process {n}") for n in range(processes)]
        wins = {n: run.result() for n, run in enumerate(runs)}
    assert Counter(key for won in wins.values() for key in won) == dict.fromkeys(keys, 1)
    for n, won in wins.items():
        for key, data in zip(won, store.get_many(won), strict=True):
            assert data == f"process {n} {key} ".encode() * 100


@pytest.mark.parametrize("fault", ["request", "answer"])
def test_a_put_whose_outcome_is_unknown(store, uri, server, monkeypatch, fault):
    with lossy_proxy(server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        unsure = Store.open(uri)
        proxy.faults = [fault, fault]
        unsure.put("commits/1", b"ours")
        assert proxy.faults == []
        assert store.get("commits/1") == b"ours"
        store.put("commits/2", b"theirs")
        proxy.faults = [fault]
        with pytest.raises(AlreadyExists):
            unsure.put("commits/2", b"ours")
        assert store.get("commits/2") == b"theirs"


def commit(log, changes, tag):
    updates = saved(log._store, log.manifest.number + 1, tag, changes)
    log.commit(log.draft(tag=tag, clock=0.0, updates=updates))


def test_one_driver_after_another_goes_on_from_the_checkpoint_on_s3(uri):
    one = CommitLog(Store.open(uri), "word-count", "one")
    one.claim()
    for number in range(2, 102):
        commit(one, [("count/0", "s", BIG if number % 2 else b"%d" % number, number)], "a")
    one.collect()
    two = CommitLog(Store.open(uri), "word-count", "two")
    two.claim()
    with pytest.raises(Fenced, match=r"driver 'two' \(epoch 2\) has taken over"):
        commit(one, [], "b")
    commit(two, [("count/0", "s", b"last", 0)], "c")
    payloads = stored(Store.open(uri), two.manifest.number)
    assert payloads == {"count/0": {"s": [BIG, b"last"]}}
    two.collect()
    assert len(Store.open(uri).list("state/")) == 1


def test_two_drivers_at_once(uri):
    """Each takes over from the other as fast as it can: no commit is lost, none made twice."""
    made = {"one": [], "two": []}

    def live(driver):
        log = CommitLog(Store.open(uri), "word-count", driver)
        try:
            log.claim()
            for _ in range(20):
                number = log.manifest.number + 1
                commit(log, [("count/0", "s", f"{driver} {number}".encode(), 0)], driver)
                made[driver].append(number)
                log.collect()
        except Fenced:
            return

    def lives(driver):
        for _ in range(8):
            live(driver)

    threads = [Thread(target=lives, args=(driver,)) for driver in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not set(made["one"]) & set(made["two"])
    expected = sorted((number, driver) for driver, numbers in made.items() for number in numbers)
    newest = CommitLog(Store.open(uri), "word-count", "reader").manifest
    payloads = stored(Store.open(uri), newest.number)["count/0"]["s"]
    assert payloads == [f"{driver} {number}".encode() for number, driver in expected]
    assert len(expected) > 20


def test_a_bucket_that_does_not_exist(server):
    store = Store.open("s3://nobody-made-this/x")
    uses = [
        lambda: store.put("a", b""),
        lambda: store.get("a"),
        lambda: store.list("commits/"),
        lambda: CommitLog(store, "word-count", "one"),
    ]
    for use in uses:
        with pytest.raises(CheckpointError, match="the bucket does not exist"):
            use()


def test_wrong_credentials(uri, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = Store.open(uri)
    for use in (lambda: store.put("a", b""), lambda: store.list("commits/")):
        with pytest.raises(CheckpointError) as caught:
            use()
        assert "access denied. Check the rights of these credentials" in str(caught.value)
        assert "403 Forbidden: SignatureDoesNotMatch, The request signature" in str(caught.value)
        assert len(str(caught.value)) < 900
