"""Maps in a real Redis: exact, whatever happens to the server or to other writers."""

import time
import traceback
import zlib

import pytest
import redis

from fulmen.transactional import RedisMap, StaleAttempt, StoreRefused, StoreUnavailable, plus
from fulmen.transactional.conformance import CASES, at, context_of
from support.runs.spark_runs import wait_until
from support.servers.redis_server import PASSWORD
from support.stores.committers import Committing
from support.suite.seeds import generator, several


@pytest.fixture
def make(redis_server, request):
    """Makes views of this test's own map."""
    own = f"map-{zlib.crc32(request.node.name.encode()):x}"

    def made(task=0, rule="opaque", url=redis_server.url, name=own, **kinds):
        return RedisMap(url, name, context_of(task), rule=rule, **kinds)

    return made


@pytest.fixture
def client(redis_server):
    """For commands of the test's own."""
    with redis_server.client() as connected:
        yield connected


@pytest.mark.parametrize("seed", several(1))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_maps_in_redis_are_exact(case, seed, redis_server):
    with generator(seed) as rng:
        case(lambda name, context, rule: RedisMap(redis_server.url, name, context, rule=rule), rng)


@pytest.mark.parametrize(
    ("kinds", "key", "value", "shown"),
    [
        ({"key": "text", "value": "integer"}, "é", 2**62, ("é".encode(), b"4611686018427387904")),
        ({"key": "integer", "value": "text"}, -7, "seven", (b"-7", b"seven")),
        ({"key": "float", "value": "bytes"}, 0.5, b"\0\xff", (b"0.5", b"\0\xff")),
        ({"key": "bytes", "value": "float"}, b"\0\xff", 1e300, (b"\0\xff", b"1e+300")),
        ({"key": "json", "value": "json"}, ("a", 1), {"b": [None]}, (b'["a",1]', b'{"b":[null]}')),
    ],
    ids=["integer", "text", "bytes", "float", "json"],
)
def test_values_are_a_hash_that_anybody_can_read(make, redis_server, kinds, key, value, shown):
    a_map = make(**kinds)
    a_map.put(at(1), {key: value})
    a_map.put(at(1, 2), {key: value})
    with redis.Redis.from_url(redis_server.url) as client:
        assert client.hgetall(a_map.name) == dict([shown])
    assert a_map.get_many([key]) == {key: value}
    a_map.put(at(1, 3), {})
    assert a_map.get_many([key]) == {}


def test_the_trace_of_the_opaque_rule_is_in_the_hashes(make, client):
    a_map = make(value="integer")

    def trace():
        hashes = (a_map.name, f"{a_map.name}:previous", f"{a_map.name}:txid")
        value, previous, stamp = (client.hget(name, "n") for name in hashes)
        return value, previous, stamp.rpartition(":")[0]

    for attempt, partial in ((at(1), 1), (at(2), 3)):
        a_map.update(attempt, {"n": partial}, plus)
    assert trace() == ("4", "1", "2:0")
    a_map.update(at(2, 2), {"n": 2}, plus)
    assert trace() == ("3", "1", "2:0")
    a_map.update(at(3, 3), {"n": 2}, plus)
    assert trace() == ("5", "3", "3:0")


# ---- other writers -------------------------------------------------------------------------------


def test_what_a_stale_writer_wrote_after_the_read_is_replaced(make):
    """Between the read and the write of an attempt comes an older one, with other keys."""
    make().update(at(1), {"a": 1, "b": 1}, plus)
    stale = [at(2, 1)]

    def meanwhile(old, partial):
        if stale:
            make().update(stale.pop(), {"a": 10, "new": 10}, plus)
        return plus(old, partial)

    make().update(at(2, 2), {"b": 100}, meanwhile)
    assert make().get_many(["a", "b", "new"]) == {"a": 1, "b": 101}


def test_a_writer_that_is_overtaken_after_its_read_changes_nothing(make):
    make().update(at(1), {"a": 1}, plus)
    later = [at(2, 2)]

    def meanwhile(old, partial):
        if later:
            make().update(later.pop(), {"a": 100}, plus)
        return plus(old, partial)

    with pytest.raises(StaleAttempt):
        make().update(at(2, 1), {"a": 10, "b": 10}, meanwhile)
    assert make().get_many(["a", "b"]) == {"a": 101}


def test_a_key_that_another_task_changes_after_the_read_is_refused(make):
    others = [at(2)]

    def meanwhile(old, partial):
        if others:
            make(1).update(others.pop(), {"a": 10}, plus)
        return plus(old, partial)

    with pytest.raises(StoreRefused, match="was changed by task 1 of 'count' in the same attempt"):
        make(0).update(at(2), {"a": 1}, meanwhile)
    make(0).update(at(2, 2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 1}


def test_a_script_whose_answer_got_lost_is_not_run_twice(make, monkeypatch):
    a_map = make()
    write = a_map._write_script
    answers = []

    def unheard(**arguments):
        answers.append(write(**arguments))
        return b"changed"

    monkeypatch.setattr(a_map, "_write_script", unheard)
    a_map.update(at(1), {"a": 1}, plus)
    assert answers == [b"written"]
    assert a_map.get_many(["a"]) == {"a": 1}


# ---- outages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", several(1))
def test_a_server_that_is_killed_in_the_middle_leaves_no_part_of_a_commit_phase(
    make, redis_server, seed
):
    keys = [f"key-{n}" for n in range(300)]
    committing = Committing(make(), keys)
    committing.start()
    with generator(seed) as rng:
        for _ in range(4):
            was = committing.done
            wait_until(lambda w=was: committing.done > w, "a commit")
            time.sleep(rng.random() / 20)
            redis_server.kill()
            redis_server.start()
            assert len(set(make().get_many(keys).values())) == 1
    was = committing.done
    wait_until(lambda: committing.done > was, "a commit after the last kill")
    committing.end()
    assert committing.failures > 0
    assert make().get_many(keys) == dict.fromkeys(keys, committing.done)


def test_a_connection_that_was_cut_is_made_anew(make, client):
    make().update(at(1), {"a": 1}, plus)
    client.client_kill_filter(_type="normal", skipme=True)
    make().update(at(2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 2}


def test_threads_do_not_disturb_each_other(make):
    writers = [Committing(make(task), [f"{task}-{n}" for n in range(50)]) for task in range(6)]
    for writer in writers:
        writer.start()
    wait_until(lambda: all(writer.done > 5 for writer in writers), "all writers")
    for writer in writers:
        writer.end()
    for task, writer in enumerate(writers):
        assert make().get_many([f"{task}-7"]) == {f"{task}-7": writer.done}


# ---- what is refused -----------------------------------------------------------------------------


def refused(error, a_map):
    """The text of what an update raises. It never has the password, nor has the traceback."""
    with pytest.raises(error) as raised:
        a_map.update(at(9), {"a": 1}, plus)
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))
    assert str(raised.value).startswith(f"map {a_map.name!r} in Redis at 127.0.0.1:")
    return str(raised.value)


def test_a_server_that_is_away_is_said(make):
    text = refused(StoreUnavailable, make(url="redis://:s3cret@127.0.0.1:1/2"))
    assert "at 127.0.0.1:1, database 2: Redis is away (" in text


def test_a_wrong_password_is_said_and_not_shown(make, redis_server):
    url = redis_server.url_of("default", "s3cret-wrong")
    assert "does not let us in" in refused(StoreUnavailable, make(url=url))
    without = f"redis://127.0.0.1:{redis_server.port}"
    assert "does not let us in" in refused(StoreUnavailable, make(url=without))


@pytest.mark.parametrize(
    "url", ["s3cret", "redis://:s3cret@[h", "http://:s3cret@h", "redis://h/s3cret"]
)
def test_a_url_that_is_wrong_is_not_shown(make, url):
    with pytest.raises(StoreRefused, match="its URL can't be understood") as raised:
        make(url=url)
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))


def test_a_user_without_a_right_is_refused_and_changes_nothing(make, redis_server, client):
    make().update(at(1), {"a": 1}, plus)
    client.acl_setuser("reader", enabled=True, passwords=[f"+{PASSWORD}"], keys="*")
    client.execute_command("ACL", "SETUSER", "reader", "+@all", "-hset")
    reader = make(url=redis_server.url_of("reader", PASSWORD))
    assert "a right is missing" in refused(StoreUnavailable, reader)
    assert make().get_many(["a"]) == {"a": 1}
    client.execute_command("ACL", "SETUSER", "reader", "+hset")
    reader.update(at(2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 2}


def test_a_replica_is_refused(make, client):
    make().update(at(1), {"a": 1}, plus)
    client.replicaof("127.0.0.1", 1)
    try:
        assert "the server is a read-only replica" in refused(StoreUnavailable, make())
    finally:
        client.replicaof("NO", "ONE")
    make().update(at(2), {"a": 1}, plus)


def test_a_server_without_memory_is_waited_for(make, client):
    make().update(at(1), {"a": 1}, plus)
    client.config_set("maxmemory", 1)
    try:
        assert "the server's memory is full" in refused(StoreUnavailable, make())
    finally:
        client.config_set("maxmemory", 0)
    make().update(at(2), {"a": 1}, plus)
    assert make().get_many(["a"]) == {"a": 2}


@pytest.mark.parametrize("part", ["", ":txid", ":previous", ":tasks"])
def test_keys_of_somebody_else_are_not_touched(make, client, part):
    a_map = make(name=f"taken{part.replace(':', '-')}")
    client.set(f"{a_map.name}{part}", "theirs")
    text = refused(StoreRefused, a_map)
    assert f"there is a key '{a_map.name}{part}' that Fulmen has not made" in text
    assert client.keys(f"{a_map.name}*") == [f"{a_map.name}{part}"]


def test_a_mark_that_is_not_ours_is_refused(make, client):
    client.hset("odd:fulmen", "topology", "shop")
    assert "the key 'odd:fulmen' is not as Fulmen makes it" in refused(
        StoreRefused, make(name="odd")
    )


def test_data_that_the_server_lost_are_not_begun_anew(make, client):
    make().update(at(1), {"a": 1}, plus)
    client.delete(*client.keys(f"{make().name}*"))
    assert "is gone: Redis has lost its data" in refused(StoreUnavailable, make())
    assert client.keys(f"{make().name}*") == []
