"""The Redis connectors with a real server: nothing lost by kills, cuts and crashes."""

import time
import zlib

import pytest

from fulmen.api import Rows, ServiceUnavailable, TopologyContext
from fulmen.api.components.sinks import Mark
from fulmen.api.declarer import Stream
from fulmen.api.marks import Point, StoreMismatch
from fulmen.connectors.redis import RedisListSpout, RedisSink, RedisStreamSpout
from fulmen.errors import FulmenError
from support.lives.source_life import SourceLife, chaos, rescaled
from support.runs.spark_runs import wait_until
from support.servers.cut_proxy import cut_proxy
from support.servers.redis_server import PASSWORD, running_redis
from support.suite.seeds import generator, several

BATCHES = 150
LABEL = "test/sink/0"


@pytest.fixture
def name(request):
    return f"own-{zlib.crc32(request.node.name.encode()):x}"


@pytest.fixture
def client(redis_server):
    with redis_server.client() as connected:
        yield connected


@pytest.fixture
def redis_cluster():
    """One of one node, which has all slots."""
    with running_redis("--cluster-enabled", "yes") as server:
        with server.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            wait_until(
                lambda: "cluster_state:ok" in client.execute_command("CLUSTER", "INFO"), "it"
            )
        yield server


@pytest.fixture
def proxy(redis_server):
    with cut_proxy(redis_server.port) as made:
        yield made


def url(server, port=None):
    return server.url.replace(str(server.port), str(port or server.port))


def life_of(server, kind, key, port=None, index=0, tasks=1, **options):
    more = {"group": "g", "mkstream": True} if kind is RedisStreamSpout else {}
    return SourceLife(kind, {"url": url(server, port), "key": key, **more, **options}, index, tasks)


def add(client, kind, key, values):
    """Messages, in one transaction."""
    with client.pipeline() as pipe:
        for value in values:
            if kind is RedisStreamSpout:
                pipe.xadd(key, {"value": value})
            else:
                pipe.rpush(key, value)
        pipe.execute()


def kept(client, kind, key):
    """How many messages Redis keeps for tasks."""
    if kind is RedisStreamSpout:
        return client.xpending(key, "g")["pending"]
    names = client.hkeys(f"{key}:processing:test:source")
    return len([name for name in names if name != "last"])


def finish(life):
    """Batches until nothing comes any more, and the last acks have arrived."""
    if life.source is None:
        life.start()
    for _ in range(2):  # the first may meet a connection that is dead
        while life.whole():
            pass
    return sorted(values[0] for _, values in life.processed)


KINDS = pytest.mark.parametrize("kind", [RedisStreamSpout, RedisListSpout])


@KINDS
def test_messages_are_emitted_in_order_and_forgotten_when_they_are_acked(
    kind, redis_server, client, name
):
    add(client, kind, name, ["a", "b", "a"])
    life = life_of(redis_server, kind, name).start()
    assert life.turn() == 3
    assert [values for _, _, values in life.collector.emits] == [["a"], ["b"], ["a"]]
    first, second, third = life.emitted()
    life.commit(acked=[second])
    assert kept(client, kind, name) == 3
    life.turn()
    assert kept(client, kind, name) == 2
    life.commit(acked=[first, third])
    life.turn()
    assert kept(client, kind, name) == 0
    assert client.hlen(f"{name}:processing:test:source") <= 1


@KINDS
def test_a_failed_message_is_emitted_again_also_by_the_next_life(kind, redis_server, client, name):
    add(client, kind, name, ["a", "b"])
    life = life_of(redis_server, kind, name).start()
    life.turn()
    first, second = life.emitted()
    life.commit(acked=[second], failed=[first])
    life.deliver()
    life.commit()
    life.lose()
    life.start()
    assert life.turn() == 1
    assert life.collector.emits == [(first, "default", ["a"])]
    assert finish(life) == ["a", "b"]


@KINDS
def test_what_was_read_and_not_committed_is_emitted_by_the_next_life(
    kind, redis_server, client, name
):
    add(client, kind, name, map(str, range(250)))
    life = life_of(redis_server, kind, name).start()
    life.turn(7)
    life.lose()
    life.start()
    assert finish(life) == sorted(map(str, range(250)))
    assert kept(client, kind, name) == 0


@KINDS
@pytest.mark.parametrize("seed", several(3))
def test_each_message_is_processed_once_whatever_is_lost(kind, redis_server, client, name, seed):
    key = f"{name}-{seed}"
    with generator(seed) as rng:
        life = life_of(redis_server, kind, key, count=rng.choice([1, 7, 100])).start()
        sent = []

        def lose():
            life.lose()
            life.start()

        def send():
            values = [str(rng.randrange(50)) for _ in range(rng.randrange(40))]
            add(client, kind, key, values)
            sent.extend(values)

        send()
        faults = chaos(life, rng, BATCHES, lose, send)
        assert faults > 20
        assert finish(life) == sorted(sent)
        assert kept(client, kind, key) == 0


@KINDS
@pytest.mark.parametrize("seed", several(2))
def test_each_message_is_processed_once_whatever_the_number_of_tasks(
    kind, redis_server, client, name, seed
):
    key, sent = f"{name}-{seed}", []
    with generator(seed) as rng:
        count = rng.choice([1, 7, 100])
        lives = [life_of(redis_server, kind, key, index=i, tasks=2, count=count) for i in range(2)]
        lives = [life.start() for life in lives]
        for _ in range(6):
            values = [str(rng.randrange(50)) for _ in range(rng.randrange(60))]
            add(client, kind, key, values)
            sent += values
            for life in lives:
                chaos(life, rng, 5, lambda life=life: (life.lose(), life.start()))
                life.end_trees(rng)
            for _ in range(rng.randrange(1, 3)):  # with 2, none of the first was ever opened
                lives = rescaled(lives, rng.randrange(1, 5))
            for life in lives:
                life.start()
        for _ in range(2):
            assert sorted(v for life in lives for v in finish(life)) == sorted(sent)
    assert not any(life.errors for life in lives)
    assert kept(client, kind, key) == 0


@KINDS
@pytest.mark.parametrize(("first", "second", "third"), [(4, 2, 3), (5, 3, 2)])
def test_two_changes_of_the_number_of_tasks_with_no_batch_between_repeat_nothing(
    kind, redis_server, client, name, first, second, third
):
    lives = [life_of(redis_server, kind, name, index=i, tasks=first).start() for i in range(first)]
    for life in lives:
        add(client, kind, name, ["acked", "failed"])
        life.turn()
        acked, failed = life.emitted()
        life.commit(acked=[acked], failed=[failed])
        life.deliver()
        life.commit()
        life.lose()
    lives = [life.start() for life in rescaled(rescaled(lives, second), third)]
    processed = sorted(v for life in lives for v in finish(life))
    assert processed == ["acked"] * first + ["failed"] * first
    assert kept(client, kind, name) == 0
    for life in lives:
        life.source.clock = lambda: time.monotonic() + 100
        assert not life.turn()
        assert life.source.elsewhere == {}


def test_a_task_of_before_takes_nothing_from_tasks_that_came_after_it(redis_server, client, name):
    old = [life_of(redis_server, RedisStreamSpout, name, index=i, tasks=2) for i in range(2)]
    for life in old:
        life.start().commit()
    new = [life.start() for life in rescaled(old, 3)]
    for life in new:
        add(client, RedisStreamSpout, name, ["a"])
        assert life.turn() == 1
    for life in old + new:  # all of them look what is pending, as after some time
        life.source.clock = lambda: time.monotonic() + 100
        life.turn()
    assert sorted(v for life in new for v in finish(life)) == ["a", "a", "a"]
    assert kept(client, RedisStreamSpout, name) == 0


@KINDS
@pytest.mark.parametrize("seed", several(1))
def test_connections_that_are_cut_in_the_middle_lose_and_repeat_nothing(
    kind, redis_server, client, name, proxy, seed
):
    key = f"{name}-{seed}"
    with generator(seed) as rng:
        sent = [f"message {n}" for n in range(2000)]
        add(client, kind, key, sent)
        life = life_of(redis_server, kind, key, proxy.port, count=10).start()

        def lose():
            life.lose()
            while True:
                try:
                    return life.start()
                except ServiceUnavailable:  # cut while it was opened: a driver tries again, too
                    proxy.cut_after(1 << 40)

        chaos(life, rng, BATCHES, lose, lambda: proxy.cut_after(rng.randrange(400)))
        assert proxy.cuts > 5
        proxy.cut_after(1 << 40)
        assert finish(life) == sorted(sent)


@KINDS
def test_a_server_that_is_killed_is_waited_for(kind, redis_server, client, name):
    add(client, kind, name, map(str, range(30)))
    life = life_of(redis_server, kind, name, count=10).start()
    life.turn(15)
    ids = life.emitted()
    life.commit(acked=ids[:8], failed=ids[8:])
    redis_server.kill()
    assert life.turn() == 0
    life.commit()
    assert isinstance(life.errors[-1], ServiceUnavailable)
    assert PASSWORD not in str(life.errors[-1])
    redis_server.start()
    assert finish(life) == sorted(map(str, range(30)))
    assert kept(client, kind, name) == 0


@KINDS
def test_messages_that_cannot_be_parsed_go_to_errors(kind, redis_server, client, name):
    add(client, kind, name, ['{"a": 1}', "no json"])
    options = {"format": {"type": "json", "fields": ["a"]}}
    life = life_of(redis_server, kind, name, **options).start()
    life.turn()
    (_, stream, values), (msg_id, errors, shown) = life.collector.emits
    assert (stream, values, errors) == ("default", [1], "errors")
    assert shown[0] == b"no json"
    assert "it is not JSON" in shown[1]
    assert shown[2] == msg_id


@KINDS
def test_messages_of_tasks_that_are_no_more_go_to_those_that_there_are(
    kind, redis_server, client, name
):
    add(client, kind, name, map(str, range(20)))
    old = [life_of(redis_server, kind, name, index=i, tasks=3, count=5).start() for i in range(3)]
    for life in old:
        life.turn(5)
        life.lose()
    life = life_of(redis_server, kind, name).start()
    assert finish(life) == sorted(map(str, range(20)))


def test_an_entry_that_was_trimmed_is_told_of_and_left(redis_server, client, name):
    add(client, RedisStreamSpout, name, ["a", "b"])
    life = life_of(redis_server, RedisStreamSpout, name).start()
    life.turn()
    first, second = life.emitted()
    life.commit(failed=[first, second])
    client.xdel(name, first)
    life.turn()
    life.commit()
    assert "was removed" in life.errors[-1]
    assert life.pending.pop(None) == (
        "errors",
        [None, f"it was removed from {name!r} before it was processed", first],
    )
    assert finish(life) == ["b"]
    assert kept(client, RedisStreamSpout, name) == 0


def lag_of(client, name):
    return client.xinfo_groups(name)[0]["lag"]


@pytest.mark.parametrize("read", [0, 2])
@pytest.mark.parametrize("left", [0, 3])
def test_entries_that_were_trimmed_before_they_were_read_are_told_once_and_are_no_lag(
    redis_server, client, name, read, left
):
    add(client, RedisStreamSpout, name, "abcdefgh")
    client.xtrim(name, maxlen=7, approximate=False)  # before there was a group
    lives = [
        life_of(redis_server, RedisStreamSpout, name, index=i, tasks=2, count=2).start()
        for i in (0, 1)
    ]
    while read and lives[0].turn(read) < read:
        pass
    client.xtrim(name, maxlen=left, approximate=False)
    emits = []
    for life in (*lives, *lives):
        life.turn()
        emits += [(stream, values) for _, stream, values in life.collector.emits]
        life.commit()
    told = [values for stream, values in emits if stream == "errors"]
    assert [reason for _, reason, _ in told] == [
        f"{7 - read - left} entries were removed from {name!r} before anybody had read them"
    ]
    assert [error for life in lives for error in life.errors] == [f"{told[0][2]}: {told[0][1]}"]
    assert lag_of(client, name) == 0
    add(client, RedisStreamSpout, name, "ij")
    assert lag_of(client, name) == 2
    assert lives[0].turn(2) == 2
    assert lag_of(client, name) == 0


def test_entries_that_were_read_may_be_trimmed_in_silence(redis_server, client, name):
    add(client, RedisStreamSpout, name, "abcd")
    life = life_of(redis_server, RedisStreamSpout, name, count=2).start()
    assert life.turn(2) == 2
    client.xtrim(name, maxlen=2, approximate=False)
    assert life.turn() == 2
    client.xtrim(name, maxlen=0, approximate=False)
    add(client, RedisStreamSpout, name, "e")
    assert life.turn() == 1
    assert {stream for _, stream, _ in life.collector.emits} == {"default"}


def test_a_group_that_begins_with_what_comes_later_knows_what_was_trimmed(
    redis_server, client, name
):
    add(client, RedisStreamSpout, name, "abc")
    life = life_of(redis_server, RedisStreamSpout, name, id="$").start()
    add(client, RedisStreamSpout, name, "de")
    client.xtrim(name, maxlen=1, approximate=False)
    assert life.turn() == 2
    assert sorted(values[0] or values[1] for _, _, values in life.collector.emits) == [
        f"1 entry was removed from {name!r} before anybody had read them",
        "e",
    ]


def test_the_lag_of_a_stream_is_the_age_of_the_oldest_entry_that_was_not_emitted(
    redis_server, client, name
):
    now = client.time()[0] * 1000
    for age in (100_000, 60):
        client.xadd(name, {"value": str(age)}, id=f"{now - age * 1000}-0")
    life = life_of(redis_server, RedisStreamSpout, name, count=1, id="0").start()
    assert life.turn(1) == 1  # when it is told, the first one is read, and not emitted
    lag = life.source.context.signals.take_lag()
    assert lag.messages == 2
    assert lag.seconds >= 100_000
    assert 60 <= life.source.seconds_behind() < 100_000  # the other one is in Redis
    assert life.turn(1) == 1
    assert life.source.seconds_behind() == 0.0


@pytest.mark.parametrize("kind", [RedisStreamSpout, RedisListSpout])
def test_what_waits_for_several_tasks_is_counted_once(kind, redis_server, client, name):
    add(client, kind, name, "abcdef")
    lives = [life_of(redis_server, kind, name, index=i, tasks=3, count=1) for i in range(3)]
    told = []
    for life in lives:
        life.start().turn(1)
        told.append(life.source.context.signals.take_lag().messages)
    # when the first one tells it, it alone has read: one of six
    assert told == [6, 1, 1]


def test_ids_that_are_no_times_tell_no_lag_in_seconds(redis_server, client, name):
    client.xadd(name, {"value": "a"}, id="1-1")
    life = life_of(redis_server, RedisStreamSpout, name, id="0").start()
    life.turn(1)
    assert life.source.context.signals.take_lag() == (1, None)


def test_a_group_that_was_removed_is_created_again(redis_server, client, name):
    add(client, RedisStreamSpout, name, ["a", "b"])
    life = life_of(redis_server, RedisStreamSpout, name).start()
    life.turn()
    first, second = life.emitted()
    life.commit(acked=[first])
    client.xgroup_destroy(name, "g")
    life.turn()
    life.turn()
    assert life.emitted().count(second) == 1
    reason = f"group 'g' of {name!r} was removed. It begins again with the first entry there is"
    assert life.collector.errors == [f"{name}: {reason}"]
    assert (None, "errors", [None, reason, name]) in life.collector.emits


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (RedisStreamSpout, {"group": "g"}, "there is no stream 'absent'"),
        (RedisStreamSpout, {"group": "g", "key": "text"}, "the key 'text' is no stream"),
        (RedisListSpout, {"key": "text"}, "the key 'text' is a string, not a list"),
    ],
    ids=["no stream", "no stream but text", "no list"],
)
def test_keys_that_cannot_be_read_are_told_of(redis_server, client, kind, options, said):
    client.set("text", "foreign")
    options = {"url": redis_server.url, "key": "absent", **options}
    with pytest.raises(ServiceUnavailable, match=said):
        SourceLife(kind, options).start()
    assert client.get("text") == "foreign"


# ---- the sink ------------------------------------------------------------------------------------


RECEIVED = ("word", "count")


def sink_of(address, received=RECEIVED, **options):
    sink = RedisSink()
    context = TopologyContext(
        topology="test",
        component="sink",
        task_id=2,
        task_index=0,
        worker=0,
        component_tasks={"source": range(1, 2), "sink": range(2, 3)},
        streams={"source": {"default": Stream(received)}, "sink": {}},
        sources=(("source", "default"),),
        options=RedisSink.config_model.model_validate({"url": address, **options}),
    )
    sink.prepare({}, context)
    return sink


def write(sink, values, mark=None, fields=RECEIVED):
    """What the engine does with a sink. Returns the reasons of rows that failed, by value."""
    rows = Rows(fields, values)
    encoded = sink.encode(rows)
    left = [i for i in range(len(values)) if i not in rows.failed]
    written = Rows(fields, [encoded[i] for i in left])
    if left:
        sink.write(written, mark)
    return rows.failed | {left[i]: reason for i, reason in written.failed.items()}


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"type": "set", "format": {"type": "text", "field": "word"}}, {"a", "b"}),
        ({"type": "list", "format": {"type": "json"}}, ['{"word":"a","count":1}', "b"]),
        ({"type": "hash", "field": "{word}", "format": {"type": "text", "field": "count"}}, 0),
        ({"type": "hash"}, {"word": "b", "count": "2"}),
        ({"type": "stream", "fields": ["count"]}, [{"count": "1"}, {"count": "2"}]),
        ({"type": "string", "format": {"type": "text", "field": "count"}}, "2"),
    ],
    ids=["set", "list", "hash with field", "hash", "stream", "string"],
)
def test_rows_are_written_by_type(redis_server, client, name, options, found, guarantee):
    sink = sink_of(redis_server.url, key=name, ex=100, **options)
    mark = Mark(name, 1, "t", LABEL) if guarantee == "exactly-once" else None
    client.delete(name)
    assert write(sink, [["a", 1], ["b", 2]], mark) == {}
    match options["type"]:
        case "set":
            assert client.smembers(name) == found
        case "list":
            assert client.lrange(name, 0, -1) == [found[0], '{"word":"b","count":2}']
        case "hash":
            assert client.hgetall(name) == (found or {"a": "1", "b": "2"})
        case "stream":
            assert [values for _, values in client.xrange(name)] == found
        case "string":
            assert client.get(name) == found
    assert 0 < client.ttl(name) <= 100


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("kind", ["set", "hash", "stream", "list", "string"])
def test_a_key_of_another_type_is_not_changed_and_its_rows_fail(
    redis_server, client, name, kind, marked
):
    foreign = "list" if kind != "list" else "set"
    client.rpush(f"{name}:a", "x") if foreign == "list" else client.sadd(f"{name}:a", "x")
    before = client.dump(f"{name}:a")
    options = {"field": "{word}"} if kind == "hash" else {}
    form = {} if kind == "stream" else {"format": {"type": "text", "field": "count"}}
    sink = sink_of(redis_server.url, key=name + ":{word}", type=kind, **options, **form)
    mark = Mark(name, 1, "t", LABEL) if marked else None
    expected = {0: f"key '{name}:a': the key is a {foreign}, not a {kind}: it was not changed"}
    assert write(sink, [["a", 1], ["b", 2]], mark) == expected
    if marked:
        assert write(sink, [["a", 1], ["b", 2]], mark) == expected
    assert client.dump(f"{name}:a") == before
    assert client.exists(f"{name}:b")
    client.delete(f"{name}:b")


def limited(server, client, name, *rights):
    """The address of a user who has these rights."""
    client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *rights)
    return server.url_of(name, PASSWORD)


@pytest.mark.parametrize("marked", [False, True])
def test_keys_that_the_user_may_not_use_fail_their_rows_alone(redis_server, client, name, marked):
    address = limited(redis_server, client, name, f"~{name}:ok:*", "~fulmen:mark:*", "+@all")
    sink = sink_of(address, key=name + ":{word}", type="string", format={"type": "json"})
    mark = Mark(name, 1, "t", LABEL) if marked else None
    values = [[f"ok:{i}" if i % 3 else f"no:{i}", i] for i in range(700)]
    for _ in range(2):
        failed = write(sink, values, mark)
        assert list(failed) == list(range(0, 700, 3))
        assert failed[0].startswith(f"key '{name}:no:0': this user has no permissions to access")
    assert len(client.keys(f"{name}:*")) == 700 - len(failed)


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("key", "rights"),
    [
        ("{word}", ("~*", "+@all", "-set")),
        ("{word}", ("~*", "+@all", "-type")),
        ("constant", ("~other:*", "~fulmen:mark:*", "+@all")),
    ],
    ids=["set", "type", "key"],
)
def test_a_right_that_no_row_can_do_without_is_waited_for(
    redis_server, client, name, marked, key, rights
):
    address = limited(redis_server, client, name, *rights)
    sink = sink_of(address, key=f"{name}:{key}", type="string", format={"type": "json"})
    mark = Mark(name, 1, "t", LABEL) if marked else None
    with pytest.raises(ServiceUnavailable, match="can't be used: a right is missing"):
        write(sink, [["a", 1], ["b", 2]], mark)
    client.execute_command("ACL", "SETUSER", name, "~*", "+@all")
    assert write(sink, [["a", 1], ["b", 2]], mark) == {}
    assert client.keys(f"{name}:*")  # nothing said before that it was written


def test_rows_go_to_all_slots_of_a_cluster(redis_cluster, name):
    sink = sink_of(redis_cluster.url, key=name + ":{word}", type="list", format={"type": "json"})
    values = [[f"{i % 40}", i] for i in range(1200)]
    assert write(sink, values) == {}
    with redis_cluster.client() as client:
        assert len(client.keys(f"{name}:*")) == 40
        found = client.lrange(f"{name}:7", 0, -1)
    assert found == [f'{{"word":"7","count":{i}}}' for i in range(7, 1200, 40)]


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster: the first has the lower half of the slots."""
    with (
        running_redis("--cluster-enabled", "yes") as here,
        running_redis("--cluster-enabled", "yes") as there,
        here.client() as one,
        there.client() as other,
    ):
        one.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        other.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        bus = one.config_get("cluster-port")["cluster-port"]
        other.execute_command("CLUSTER", "MEET", "127.0.0.1", here.port, bus)
        for node in (one, other):
            wait_until(lambda: "cluster_state:ok" in node.execute_command("CLUSTER", "INFO"), "it")  # noqa: B023
        yield here, there


def test_a_sink_says_that_a_key_is_at_another_node_of_a_cluster(two_nodes):
    here, there = two_nodes
    sink = sink_of(here.url, key="{word}", type="list", format={"type": "json"})
    said = f"a key is at another node of the cluster.* 127.0.0.1:{there.port}"
    with pytest.raises(ServiceUnavailable, match=said):
        write(sink, [[f"{i}", i] for i in range(40)])


def test_nothing_is_written_while_some_keys_are_at_another_node_of_a_cluster(two_nodes, name):
    here, _ = two_nodes
    sink = sink_of(here.url, key=name + ":{word}", type="list", format={"type": "json"})
    for values in ([[f"{i}", i] for i in range(40)], [[f"{i}", 0] for i in range(501)]):
        with pytest.raises(ServiceUnavailable, match="a key is at another node of the cluster"):
            write(sink, values)
    with here.client() as one:
        assert one.keys(f"{name}:*") == []  # else it would be written again at each try


def test_exactly_once_is_refused_in_a_cluster(redis_cluster):
    with pytest.raises(FulmenError, match="a node of a cluster, where no script may write rows"):
        sink_of(
            redis_cluster.url,
            key="{word}",
            type="string",
            format={"type": "json"},
            guarantee="exactly-once",
        )


def test_a_sink_waits_while_the_slot_of_a_new_key_moves_to_another_node(two_nodes):
    here, there = two_nodes
    sink = sink_of(here.url, key="{word}", type="list", format={"type": "json"})
    with here.client() as one, there.client() as other:
        slot = one.execute_command("CLUSTER", "KEYSLOT", "b")
        assert slot < 8192
        ids = [node.execute_command("CLUSTER", "MYID") for node in (one, other)]
        other.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        one.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        said = f"another node of the cluster, and Fulmen uses one node alone .*:{there.port}"
        with pytest.raises(ServiceUnavailable, match=said):
            write(sink, [["b", 1]])
        one.execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
        assert write(sink, [["b", 1]]) == {}


def first_turn(life):
    life.start()
    life.turn()


@KINDS
def test_a_source_says_that_its_key_is_at_another_node_of_a_cluster(two_nodes, kind):
    here, there = two_nodes
    life = life_of(here, kind, "a")
    said = f"a key is at another node of the cluster.* 127.0.0.1:{there.port}"
    with pytest.raises(ServiceUnavailable, match=said):
        first_turn(life)


def test_a_refused_row_is_shown_as_the_command_that_it_was(redis_server):
    sink = sink_of(
        redis_server.url, key="k:{word}", type="hash", field="f", format={"type": "json"}
    )
    (item,) = sink.encode(Rows(RECEIVED, [["a", 1]]))
    shown = {"key": "k:a", "command": "HSET", "arguments": ["f", '{"word":"a","count":1}']}
    assert sink.describe(item) == shown


def test_marks_decide(redis_server, client, name):
    sink = sink_of(redis_server.url, key=name, type="list", format={"type": "json"})
    for _ in range(2):
        write(sink, [["a", 1]], Mark(name, 5, "t5", LABEL))
    assert client.llen(name) == 1
    with pytest.raises(StoreMismatch):
        write(sink, [["b", 1]], Mark(name, 5, "other", LABEL))
    with pytest.raises(StoreMismatch):
        write(sink, [["b", 1]], Mark(name, 4, "t4", LABEL))
    with pytest.raises(StoreMismatch, match="the store is older than the checkpoint"):
        write(sink, [["b", 1]], Mark(name, 12, "t12", LABEL, Point(11, "t11")))
    with pytest.raises(StoreMismatch, match="the store has no commit"):
        write(sink, [["b", 1]], Mark(f"{name}:other", 12, "t12", LABEL, Point(11, "t11")))
    write(sink, [["c", 1]], Mark(name, 12, "t12", LABEL, Point(5, "t5")))
    assert client.llen(name) == 2
    assert client.hgetall(f"fulmen:mark:{name}") == {
        "number": "12",
        "tag": "t12",
        "label": LABEL,
        "failed": "",
    }


def test_rows_that_can_never_be_written_fail_alone(redis_server, client, name):
    sink = sink_of(redis_server.url, key=name + ":{word}", type="hash", fields=["count"])
    failed = write(sink, [[None, 1], ["a", None], ["b", object()], ["c", {"x": 1}]])
    assert failed[0] == "the field 'word' is null"
    assert failed[1] == "all fields that are to be written are null"
    assert failed[2].startswith("field 'count': object")
    assert client.hgetall(f"{name}:c") == {"count": '{"x":1}'}
    assert sorted(failed) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({"type": "string", "format": {"type": "json"}}, '{"word":"a","count":2}', None),
        ({"type": "hash"}, {"word": "a", "count": "2"}, {}),
        (
            {"type": "hash", "field": "f", "format": {"type": "json", "fields": ["count"]}},
            {"f": '{"count":2}'},
            {},
        ),
    ],
)
def test_a_row_that_is_deleted_goes_and_may_come_again(
    redis_server, client, name, options, first, second
):
    fields = (*RECEIVED, "gone")
    sink = sink_of(redis_server.url, fields, key=name + ":{word}", deletedField="gone", **options)

    def value(word):
        key = f"{name}:{word}"
        return client.get(key) if options["type"] == "string" else client.hgetall(key)

    rows = [["a", 1, None], ["b", 1, False], ["a", None, True], ["a", 2, False], ["b", 2, True]]
    assert write(sink, rows, fields=fields) == {}
    assert (value("a"), value("b")) == (first, second)
    assert write(sink, [["a", 2, True], ["c", 1, 1]], Mark(name, 5, "t5", LABEL), fields) == {
        1: "field 'gone' tells whether a row is deleted, and is 1, which is not true, false or null"
    }
    assert value("a") == second


@pytest.mark.parametrize(
    ("options", "key", "left"),
    [
        ({"type": "string", "format": {"type": "json"}}, ["word"], None),
        ({"type": "hash"}, ["word"], {"by others": "1"}),
        (
            {"type": "hash", "field": "n{count}", "format": {"type": "json"}},
            ["word", "count"],
            {"by others": "1"},
        ),
    ],
    ids=["string", "hash", "field"],
)
def test_what_a_row_has_written_can_be_deleted(redis_server, client, name, options, key, left):
    sink = sink_of(redis_server.url, key=name + ":{word}", **options)
    assert sink.key_fields == key
    assert write(sink, [["a", 1], ["b", 2]]) == {}
    if left is not None:
        client.hset(f"{name}:a", "by others", 1)
    gone = [sink.deletion(item) for item in sink.encode(Rows(RECEIVED, [["a", 1]]))]
    sink.write(Rows(RECEIVED, gone), None)
    assert (client.get if left is None else client.hgetall)(f"{name}:a") == left
    assert client.exists(f"{name}:b")


@pytest.mark.parametrize("rights", [("~*", "+@all", "-del"), ("~{}:*", "+@all", "-@scripting")])
def test_what_a_user_may_not_delete_has_no_key(redis_server, client, name, rights):
    address = limited(redis_server, client, name, *(right.format(name) for right in rights))
    sink = sink_of(address, key=name + ":{word}", type="string", format={"type": "json"})
    assert sink.key_fields == ()


def test_a_field_that_there_is_not_is_told_at_the_start(redis_server):
    with pytest.raises(FulmenError, match="there is no field 'wrod'"):
        sink_of(redis_server.url, key="{wrod}", type="hash")


def test_a_full_server_is_waited_for_and_writes_nothing(redis_server, client, name):
    sink = sink_of(redis_server.url, key=name, type="list", format={"type": "json"})
    client.config_set("maxmemory", "1mb")
    try:
        for mark in (None, Mark(name, 1, "t", LABEL)):
            with pytest.raises(ServiceUnavailable, match="memory is full"):
                write(sink, [["a", 1], ["b", 2]], mark)
            assert not client.exists(name, f"fulmen:mark:{name}")
    finally:
        client.config_set("maxmemory", "0")
    write(sink, [["a", 1], ["b", 2]], Mark(name, 1, "t", LABEL))
    assert client.llen(name) == 2


def faulty_writes(server, proxy, name, rng, batches, kills, marked=True):
    """Writes that are repeated until they succeed, while connections are cut and servers killed.

    Returns:
        What was to be written, and how many faults there were.
    """
    options = {"key": name, "type": "list", "format": {"type": "text", "field": "word"}}
    written, faults, sink, previous = [], 0, None, None
    for number in range(1, batches + 1):
        values = [[f"{number}-{i}-{rng.random()}", i] for i in range(rng.randrange(1, 60))]
        mark = Mark(name, number, f"{rng.random()}", LABEL, previous) if marked else None
        dice = rng.random()
        if dice < 0.5:
            proxy.cut_after(rng.randrange(3000))
        elif dice < 0.5 + kills:
            server.kill()
        else:
            proxy.cut_after(1 << 40)
        times = rng.choice([1, 1, 2])
        while times:
            try:
                sink = sink or sink_of(url(server, proxy.port), **options)
                write(sink, values, mark)
                times -= 1
            except ServiceUnavailable:
                faults += 1
                if not server.runs:
                    server.start()
            if rng.random() < 0.3:  # another process repeats it
                sink = None
        written += [value for value, _ in values]
        previous = mark and Point(mark.number, mark.tag)
    proxy.cut_after(1 << 40)
    return written, faults


@pytest.mark.parametrize("seed", several(1))
def test_what_is_written_exactly_once_is_there_once_whatever_fails(
    redis_server, client, proxy, name, seed
):
    key = f"{name}-{seed}"
    with generator(seed) as rng:
        written, faults = faulty_writes(redis_server, proxy, key, rng, 40, 0.1)
        assert faults > 5
        assert client.lrange(key, 0, -1) == written


@pytest.mark.parametrize("seed", several(1))
def test_what_is_written_at_least_once_is_there_whatever_fails(
    redis_server, client, proxy, name, seed
):
    key = f"{name}-{seed}"
    with generator(seed) as rng:
        written, faults = faulty_writes(redis_server, proxy, key, rng, 40, 0.1, marked=False)
        assert faults > 5
        found = client.lrange(key, 0, -1)
        assert set(found) == set(written)
        assert len(found) > len(written)  # or nothing was repeated, and the test shows little


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", several(3))
def test_fifty_faults_and_all_rows_are_there_once(redis_server, client, proxy, name, seed):
    key = f"{name}-{seed}"
    with generator(seed) as rng:
        written, faults = faulty_writes(redis_server, proxy, key, rng, 250, 0.15)
        assert faults >= 50
        assert client.lrange(key, 0, -1) == written


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("redis://default:wrongsecret@127.0.0.1:{port}/0", "the server does not let us in"),
        ("redis://127.0.0.1:1/0", "refused"),
        ("http://127.0.0.1:{port}/0", "its URL can't be understood"),
    ],
    ids=["password", "port", "scheme"],
)
def test_addresses_that_cannot_be_used_are_told_of_without_the_password(
    redis_server, address, said
):
    with pytest.raises(ServiceUnavailable, match=said) as caught:
        sink_of(address.format(port=redis_server.port), key="k", type="hash")
    assert "wrongsecret" not in str(caught.value)
    assert "wrongsecret" not in repr(caught.value.__cause__)
