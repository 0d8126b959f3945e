"""How many rows a second the recipes carry, beside plain Python and Bytewax.

`python -m benchmarks.recipes` prints a table in Markdown; with names of jobs, of these alone.
Servers are started on this machine, as tests start them. The data are the rows of
`tests/data/recipes` again and again, and the changelogs of this Debian. Every job runs three times,
each in a process of its own: Fulmen in one process without Spark (`fulmen run --in-process`), the
loop of `loops`, and Bytewax (`dataflows`) where it has what the job needs. What Fulmen has written
is compared with what the loop has.

Seconds are from the first batch that did something, or the first row of the loop, until the last
row was written: not the start of the process. Ratios are by the clock, and by the CPU time of the
process, which has nothing of its servers: go by the second on a machine that does other work.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.goals import OF_LOOP
from benchmarks.recipes.checks import CHECKS, difference
from benchmarks.recipes.dataflows import BYTEWAX
from benchmarks.recipes.loops import LOOPS, STARTED, changelog_lines_of_all_names, now
from fulmen.cli.topology_file import TopologyFile
from fulmen.engine.driver.driver import Driver
from fulmen.engine.driver.stop import Stop
from fulmen.engine.protocol.figures.statistics import EXECUTED
from fulmen.engine.totals.totals import Totals
from fulmen.engine.worker.in_process import InProcessJobs

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "data" / "recipes"
IDLE_SECONDS = 5.0
"""Nothing was acked or committed for so long: the job is done."""
LIMIT_SECONDS = 60
"""A run that takes longer has no figure."""
Result = dict[str, float]


@dataclass(frozen=True)
class Job:
    """One topology of a recipe.

    Attributes:
        page: The recipe.
        topology: Its file.
        what: From what to what.
        data: The file that is made of a sample, and how many rows it gets; "": the changelogs.
        rows: The same.
        unique: Whether the first column gets another value in each row.
        load: The recipe's program that puts the data where it is read.
        servers: What it needs.
        topic: A topic that must be there.
        consumed: A table that is empty after a run: it is loaded again for each way.
        clients: So many send the data over HTTP while the job runs.
    """

    page: str
    topology: str
    what: str
    data: str = ""
    rows: int = 0
    unique: bool = False
    load: str = ""
    servers: Sequence[str] = ()
    topic: str = ""
    consumed: str = ""
    clients: int = 0


JOBS = {
    "flights": Job("flights-to-sqlite", "carriers", "CSV → SQLite", "flights.csv", 500_000),
    "planes": Job("planes-to-parquet", "planes", "CSV → Parquet", "planes.csv", 300_000),
    "weather": Job(
        *("weather-to-bucket", "archive", "CSV → Parquet in a bucket", "weather.csv", 300_000),
        servers=("s3",),
    ),
    "changelogs": Job("changelogs-to-redis", "words", "gzip → counts in Redis", servers=("redis",)),
    "packages": Job(
        *("log-to-postgres", "packages", "log → PostgreSQL", "dpkg.log", 1_000_000),
        servers=("postgres",),
    ),
    "airports": Job(
        *("postgres-to-kafka", "airports", "PostgreSQL → Kafka, JSON", "airports.csv", 100_000),
        unique=True,
        load="load.py",
        servers=("postgres", "kafka"),
        topic="airports",
    ),
    "ages": Job(
        *("kafka-to-rabbitmq", "ages", "Kafka → RabbitMQ", "planes.csv", 60_000),
        unique=True,
        load="produce.py",
        servers=("kafka", "rabbitmq"),
        topic="planes",
    ),
    "gusts": Job(
        *("sqlite-to-csv", "gusts", "SQLite → gzip, CSV", "weather.csv", 1_000_000), load="load.py"
    ),
    "hours": Job(
        *("redis-stream-to-csv", "hours", "Redis stream → CSV", "weather.csv", 100_000),
        load="add.py",
        servers=("redis",),
    ),
    "intake": Job(
        *("planes-in-avro", "intake", "pipe → Avro in RabbitMQ", "planes.csv", 60_000),
        unique=True,
        servers=("rabbitmq", "registry"),
    ),
    "work": Job(
        *("queue-to-list", "work", "PostgreSQL queue → Redis list", "airports.csv", 100_000),
        unique=True,
        load="enqueue.py",
        consumed="airport_queue",
        servers=("postgres", "redis"),
    ),
    **{
        f"hooks-{clients}": Job(
            *("webhook-to-sqlite", "hooks", f"HTTP → SQLite, {clients} at once"),
            *("weather.csv", rows),
            clients=clients,
        )
        for clients, rows in ((1, 20_000), (16, 100_000), (64, 100_000))
    },
    "wordtable": Job(
        *("word-count-to-postgres", "wordtable", "Kafka → counts in PostgreSQL, transactions"),
        load="produce.py",
        servers=("kafka", "postgres"),
        topic="changelog-lines",
    ),
}


def grown(sample: Path, out: Path, rows: int, *, unique: bool) -> None:
    """A file with the rows of a sample, again and again; a header stays the only one."""
    has_header = sample.suffix == ".csv"
    with sample.open(newline="") as source, out.open("w", newline="") as file:
        if not has_header:
            file.writelines(itertools.islice(itertools.cycle(source.readlines()), rows))
            return
        header, *found = csv.reader(source)
        writer = csv.writer(file)
        writer.writerow(header)
        for number, row in enumerate(itertools.islice(itertools.cycle(found), rows)):
            writer.writerow([f"{row[0]}-{number}", *row[1:]] if unique else row)


@contextmanager
def servers(wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Those servers, which end with this; the environment says where they are."""
    from support.servers.kafka_server import running_kafka
    from support.servers.postgres import running_postgres
    from support.servers.rabbitmq_server import running_rabbitmq
    from support.servers.redis_server import running_redis
    from support.servers.registry_server import running_registry
    from support.servers.s3 import running_s3

    make: dict[str, tuple[Callable[[], Any], Callable[[Any], dict[str, str]]]] = {
        "kafka": (running_kafka, lambda server: {"KAFKA": server.address}),
        "postgres": (running_postgres, lambda server: {"DSN": server.dsn}),
        "rabbitmq": (running_rabbitmq, lambda server: {"RABBITMQ_URL": server.url}),
        "redis": (running_redis, lambda server: {"REDIS_URL": server.url}),
        "registry": (running_registry, lambda server: {"REGISTRY": server.url}),
        "s3": (lambda: running_s3(folder), lambda server: server.environment()),
    }
    with ExitStack() as stack, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {}
        for one in sorted(wanted):
            running, environment = make[one]
            found[one] = stack.enter_context(running())
            os.environ.update(environment(found[one]))
        yield found


def prepare(job: Job, folder: Path, found: dict[str, Any], rows: int) -> None:
    """Lay a recipe's files and data into a folder, and load them."""
    from support.docs import recipes

    recipes.lay(job.page, folder, "airlines.csv", "sections.csv")
    if job.data:
        grown(SAMPLES / job.data, folder / job.data, rows or job.rows, unique=job.unique)
    else:
        (folder / "doc").mkdir()
        packages = sorted(Path("/usr/share/doc").glob("*/changelog.Debian.gz"))
        for path in packages[: rows // 100 or None]:
            (folder / "doc" / path.parent.name).symlink_to(path.parent)
    if job.topic:
        found["kafka"].make_topic(job.topic)
        wake(found["kafka"].address, job.topic)
    if job.load and not job.consumed:
        load(job, folder)


def wake(broker: str, topic: str) -> None:
    """Have a broker make what it makes once in its life: topics of transactions and of offsets."""
    servers = {"bootstrap.servers": broker}
    producer = Producer({**servers, "transactional.id": "first", "log_level": 3})  # it tries again
    producer.init_transactions()
    consumer = Consumer({**servers, "group.id": "first"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def load(job: Job, folder: Path) -> None:
    """Put the data where it is read."""
    if job.consumed:
        with psycopg.connect(os.environ["DSN"]) as db:
            db.execute(f"DROP TABLE IF EXISTS {job.consumed}")
    subprocess.run([sys.executable, job.load], cwd=folder, check=True, capture_output=True)


@dataclass
class Work:
    """What a run has done.

    Attributes:
        acked: Messages.
        executed: Tuples.
        committed: Of transactions that had tuples, the last one; a source may open empty ones for
            as long as it runs.
    """

    acked: int = 0
    executed: int = 0
    committed: int = 0
    _last: int = 0

    def look(self, totals: Totals) -> bool:
        """Look again, after a batch. Returns whether something was done in it."""
        before = replace(self)
        self.acked = totals.trees.acked
        executed = sum(n for (_, what, _), n in totals.counts.items() if what == EXECUTED)
        if (transactions := totals.transactions) is not None:
            if executed != self.executed:
                self._last = max([transactions.committed, *transactions.active])
            self.committed = min(transactions.committed, self._last)
        self.executed = executed
        return self != before


def fulmen(topology: str) -> Result:
    """Run a topology in this process, until nothing comes any more."""
    here = Path.cwd()
    checked = TopologyFile(here / f"{topology}.yaml").checked()
    driver = Driver(checked.runnable(here), InProcessJobs(), f"{here.as_uri()}/state").start()
    limit = time.monotonic() + LIMIT_SECONDS
    began, ended = (0.0, 0.0), (0.0, 0.0)
    work, batches = Work(), 0
    while not ended[0] or time.monotonic() - ended[0] < IDLE_SECONDS:
        if (at := now())[0] > limit:
            raise TimeoutError(f"{work} after {LIMIT_SECONDS} s")
        driver.step()
        if work.look(driver.totals):
            began, ended, batches = began if began[0] else at, now(), batches + 1
    driver.run(Stop(drain=True))  # files that sinks keep open are there when it has ended
    driver.close()
    return {**measured(work.acked, began, ended), "batches": batches}


def measured(rows: int, began: tuple[float, float], ended: tuple[float, float]) -> Result:
    """What a run has done between two looks at the clocks."""
    seconds, cpu = (end - start for start, end in zip(began, ended, strict=True))
    return {"rows": rows, "seconds": seconds, "cpu": cpu}


def timed(loop: Callable[[], int]) -> Result:
    """Run a loop in this process."""
    began = now()
    rows = loop()
    return measured(rows, (STARTED or [began])[0], now())


def base(name: str) -> str:
    """The name of a job without the number of its clients."""
    return name.partition("-")[0]


def once(name: str, how: str) -> Result:
    """Do a job in the current folder in one of the ways."""
    command = [sys.executable, "-m", "benchmarks.recipes.send_hours", f"{JOBS[name].clients}"]
    with subprocess.Popen(command) if JOBS[name].clients else nullcontext():
        return _once(name, how)


def _once(name: str, how: str) -> Result:
    if how == "fulmen":
        result = fulmen(JOBS[name].topology)
        if not result["rows"]:  # of transactions, which have no acks
            result["rows"] = sum(1 for _ in changelog_lines_of_all_names())
        return result
    return timed((LOOPS if how == "loop" else BYTEWAX)[base(name)])


def in_a_process(name: str, how: str, folder: Path) -> Result | str:
    """What a run has done; or, of one that failed, why."""
    command = [sys.executable, "-m", "benchmarks.recipes", "--once", how, name]
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(folder)])
    given = folder / "planes.csv" if name == "intake" else Path(os.devnull)
    with given.open() as stdin:
        if name == "intake":
            stdin.readline()  # the header
            os.lseek(stdin.fileno(), stdin.tell() if stdin.seekable() else 0, os.SEEK_SET)
        run = subprocess.run(
            command,
            stdin=stdin,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
            capture_output=True,
            text=True,
        )
    if run.returncode:
        return (run.stderr.strip().splitlines() or [f"code {run.returncode}"])[-1]
    found: Result = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(JOBS)}; default: all")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=0, help="fewer rows, for a look")
    arguments = parser.parse_args()
    names = arguments.names or list(JOBS)
    if arguments.once:
        print(json.dumps(once(names[0], arguments.once)))
        return
    sys.path.insert(0, str(ROOT / "tests"))
    failures = []
    print("| recipe | | rows/s | plain Python | of it | of its CPU time | Bytewax | rows a batch |")
    print("|---|---|---|---|---|---|---|---|")
    with servers({server for name in names for server in JOBS[name].servers}) as found:
        for name in names:
            job = JOBS[name]
            with tempfile.TemporaryDirectory() as folder:
                prepare(job, Path(folder), found, arguments.rows)
                ways = ["fulmen", "loop"]
                if name in BYTEWAX and importlib.util.find_spec("bytewax"):
                    ways.append("bytewax")
                results: dict[str, Result | str] = {}
                for how in ways:
                    if job.consumed:
                        load(job, Path(folder))
                    results[how] = in_a_process(name, how, Path(folder))
                failures += [
                    (name, how, why) for how, why in results.items() if isinstance(why, str)
                ]
                if all(isinstance(results[how], dict) for how in ("fulmen", "loop")):
                    with chdir(folder):
                        wrong = difference(CHECKS[base(name)])
                    failures += [(name, "check", wrong)] if wrong else []
            print(line(job, results), flush=True)
    for failure in failures:
        print(*failure, sep=": ", file=sys.stderr)
    sys.exit(bool(failures))


def line(job: Job, results: Mapping[str, Result | str]) -> str:
    """A line of the table. Rows are the loop's: those that a bolt made have acks of their own."""
    found = {how: result for how, result in results.items() if not isinstance(result, str)}
    rows = found.get("loop", found.get("fulmen", {})).get("rows", 0)
    shown = {how: f"{rows / result['seconds']:,.0f}" for how, result in found.items()}
    ratios = ["", ""]
    if "fulmen" in found and "loop" in found:
        of = [found["loop"][by] / found["fulmen"][by] for by in ("seconds", "cpu")]
        ratios = [f"{one:.2f}" if one >= OF_LOOP else f"**{one:.2f}**" for one in of]
    batch = f"{rows / found['fulmen']['batches']:,.0f}" if "fulmen" in found else ""
    cells = [shown.get("fulmen", "-"), shown.get("loop", "-"), *ratios, shown.get("bytewax", "")]
    cells.append(batch)
    return f"| [{job.topology}](recipes/{job.page}.md) | {job.what} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
