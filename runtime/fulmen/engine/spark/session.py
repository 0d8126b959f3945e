"""Starts and ends Spark: a JVM for this process, which holds the workers, unless pods do.

What it guarantees: nothing of Java or Spark is written to the terminal, only to the log file; no
secret is on a command line; whatever way this process ends, its JVM and Python processes end within
seconds (the JVM reads our pipe to its end, workers elsewhere watch their connection, Python
processes their parent).
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from fulmen.engine.jvm import spark_conf
from fulmen.engine.jvm.class_archive import ClassArchive, spark_jars
from fulmen.engine.jvm.java import find_java
from fulmen.engine.jvm.workdir import WorkDir
from fulmen.engine.protocol.callbacks.calls import FOLDER
from fulmen.engine.protocol.callbacks.told_calls import TELLS
from fulmen.engine.spark.failures import java_message, jvm_end
from fulmen.engine.spark.workers import Workers
from fulmen.engine.worker.process import LOG_FILE
from fulmen.errors import FulmenError
from fulmen.interruptions import UNBROKEN

STOP_SECONDS = 10  # what a JVM gets to end by itself; it takes 0.5 s
END_SECONDS = 1  # between the end of a connection to a JVM and that of its process
JVM_ERRORS = (Py4JError, OSError)  # what any call to the JVM raises; OSError if it has ended


@dataclass(frozen=True)
class SessionSettings:
    """Settings to start Spark with.

    Attributes:
        workers: The number of workers.
        slots: How many of them share a JVM. Those of this machine all do.
        conf: The user's Spark settings. With `spark.master` the workers are not on this machine.
        code_path: Folders, as in PYTHONPATH, from which the workers import components.
        work_dir: Where to make the private folder that Spark writes in. Default: a RAM disk.
        log_file: Where everything goes that Spark, the workers and the components print.
        worker_log: Where the workers and the components print instead, if they are on this machine.
        python: The interpreter of the workers; it has the version of this one.
        env: Environment variables of the workers.
        start_timeout_seconds: How long to wait for the next worker to start.
        least_workers: The number of workers that is enough to start with; the others may follow.
            Default: all.
        patience_seconds: How long to wait for the others.
        tell: Is told now and then what is waited for.
    """

    workers: int
    log_file: Path
    conf: Mapping[str, str]
    slots: int = 1
    code_path: str | None = None
    work_dir: Path | None = None
    worker_log: Path | None = None
    python: str = sys.executable
    env: Mapping[str, str] | None = None
    start_timeout_seconds: float = 300.0
    least_workers: int | None = None
    patience_seconds: float = 0.0
    tell: Callable[[str], None] = lambda _: None


class RunningSpark:
    """Spark, running.

    Attributes:
        sc: The context.
        workers: Who is alive.
        settings: What it was started with.
    """

    sc: SparkContext
    workers: Workers

    def __init__(self, settings: SessionSettings) -> None:
        """Keep the settings. Nothing is started yet."""
        self.settings = settings
        self._folder: WorkDir | None = None
        self._gateway: Any = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Start Spark and wait for its workers. What was started by then is ended if that fails.

        Raises:
            FulmenError: Java, Spark or a worker does not start, or the settings contradict the
                engine.
        """
        try:
            with UNBROKEN:
                self._folder = WorkDir(self.settings.work_dir)
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def work_dir(self) -> Path:
        """The folder that Spark writes in."""
        assert self._folder is not None
        return self._folder.path

    def _start(self) -> None:
        settings = self.settings
        if SparkContext._gateway is not None:
            raise FulmenError("Spark: a process can have only one session. Close the first one.")
        _tame_py4j()
        home = str(find_java().path)
        self._archive = self._find_archive(Path(home))
        logs = settings.log_file.resolve().parent
        logs.mkdir(parents=True, exist_ok=True)
        classes = self._archive.file if self._archive else None
        slots = settings.workers if self.is_local else settings.slots
        conf = spark_conf.complete(
            settings.conf, settings.workers, slots, self.work_dir, logs, classes
        )
        for name, value in self._worker_environment(home).items():
            conf.setdefault(f"spark.executorEnv.{name}", value)
        with open(settings.log_file, "ab") as log, UNBROKEN:
            gateway = self._gateway = self._launch(conf, home, log)
        try:
            self.sc = _context(gateway, conf)
            self.workers = Workers(self.sc, settings.workers, slots)
            if conf["spark.master"].startswith("k8s:"):
                threading.Thread(target=self._replace, name="fulmen-workers", daemon=True).start()
            self._wait_for_workers()
        except JVM_ERRORS as e:
            text = text_of(e)
            self.log(text)
            raise FulmenError(
                f"Spark did not start: {java_message(text)}. More is in '{settings.log_file}'."
            ) from None

    def _find_archive(self, java_home: Path) -> ClassArchive | None:
        """Find the archive; None if there is none that the driver's JVM can map."""
        archive = ClassArchive()
        # The folder of Spark's settings is on the class path; on this machine we say which it is.
        conf_folder = os.environ.get("SPARK_CONF_DIR")
        is_first = self.is_local or conf_folder == str(archive.conf_folder)
        return archive if is_first and archive.fits(java_home, spark_jars()) else None

    @property
    def is_local(self) -> bool:
        """Whether all workers are processes of the driver's JVM."""
        return "spark.master" not in self.settings.conf

    @property
    def calls_folder(self) -> Path:
        """Where workers note which calls are under way; in pods, each has a folder of that name."""
        return self.work_dir / "calls"

    def _wait_for_workers(self) -> None:
        settings = self.settings
        least = settings.workers if settings.least_workers is None else settings.least_workers
        seconds = settings.start_timeout_seconds
        self.workers.wait_for(least, seconds, settings.log_file, settings.tell)
        if settings.least_workers is not None:
            self.workers.wait_some_time(settings.patience_seconds)

    def _replace(self) -> None:
        with suppress(*JVM_ERRORS):  # Spark has ended
            self.workers.replace(self._ended, self.settings.tell)

    def _worker_environment(self, java_home: str) -> dict[str, str]:
        """The environment of workers' JVMs and Python processes, unless the user sets another."""
        settings = self.settings
        own = {
            "PYTHONSAFEPATH": "1",  # the current folder may hold a random.py
            # One core each: more threads of a library would take it from another worker.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            **(settings.env or {}),
            FOLDER: str(self.calls_folder),
        }
        paths = [settings.code_path, own.get("PYTHONPATH")]
        if not self.is_local:
            own[TELLS] = "yes"
        else:
            log = settings.worker_log or settings.log_file.resolve()
            own |= {"JAVA_HOME": java_home, LOG_FILE: str(log)}
            # what this process can import; workers have another current folder
            inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            paths += [os.path.abspath(path) for path in inherited if path]
        if any(paths):
            own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return own

    def _launch(self, conf: Mapping[str, str], java_home: str, log: IO[bytes]) -> Any:
        """The gateway to a new JVM."""
        changes: dict[str, str | None] = dict.fromkeys(
            ["PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_TESTING"]
        )
        changes |= {"JAVA_HOME": java_home, "PYSPARK_PYTHON": self.settings.python}
        changes["PYSPARK_PIN_THREAD"] = "true"  # each thread has local properties of its own
        if (jars := spark_jars()).is_dir():
            changes["SPARK_HOME"] = str(jars.parent)  # another one may have another version
        if self.is_local:
            # Somebody's spark-defaults.conf is not for us.
            none = self._archive.conf_folder if self._archive else self.work_dir
            changes |= {"SPARK_CONF_DIR": str(none), "SPARK_LOCAL_IP": "127.0.0.1"}
            changes |= dict.fromkeys(["SPARK_LOCAL_DIRS", "SPARK_LOCAL_HOSTNAME"])
        launch_conf = SparkConf(loadDefaults=False).setAll(list(spark_conf.at_launch(conf).items()))
        with _environment(changes):
            try:
                return launch_gateway(
                    launch_conf,
                    # A session of its own: signals of the terminal are for this process only.
                    {"stdout": log, "stderr": log, "start_new_session": True},
                )
            except PySparkRuntimeError as e:
                with warnings.catch_warnings():  # about a pipe that Spark leaves open
                    warnings.simplefilter("ignore", ResourceWarning)
                    traceback.clear_frames(e.__traceback__)
                raise FulmenError(
                    f"Spark did not start: Java ended at once. The reason is in '{log.name}'."
                ) from None

    def resize(self, workers: int) -> None:
        """Have so many workers. Only Spark's own cluster managers can: not on this machine."""
        if not self.workers.in_driver and workers != self.workers.count:
            self.workers.resize(workers)

    def log(self, text: str) -> None:
        """Add to the log file, if it can be written."""
        with suppress(OSError), open(self.settings.log_file, "a", encoding="utf-8") as log:
            log.write(text.rstrip() + "\n")

    def has_ended(self) -> bool:
        """Whether Spark's JVM has, as far as is known at once."""
        return self._gateway is None or self._gateway.proc.poll() is not None

    def how_it_ended(self) -> str | None:
        """Say how Spark's JVM ended. None: it has not ended."""
        if self._gateway is None:
            return "this process has ended it"
        try:
            code: int = self._gateway.proc.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return jvm_end(code)

    def abandon_connection(self) -> None:
        """Close this thread's connection to the JVM, as an answer that nobody read may come."""
        if self._gateway is not None:
            connection = self._gateway._gateway_client.get_thread_connection()
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """End Spark and everything it has started. May be called again."""
        with UNBROKEN:
            self._close()

    def _close(self) -> None:
        self._ended.set()
        if self._gateway is not None:
            if hasattr(self, "sc"):
                for _ in range(2):  # if the JVM is gone, only the second call cleans up
                    with suppress(*JVM_ERRORS), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        self.sc.stop()
            _end(self._gateway)
            self._gateway = None
        if self._folder is not None:
            self._folder.close()


def text_of(error: Exception) -> str:
    """The text of one of JVM_ERRORS. That of an exception in the JVM has to be asked for there."""
    try:
        return str(error)
    except JVM_ERRORS as e:
        return f"{type(e).__name__}: {e}"


def _context(gateway: Any, conf: Mapping[str, str]) -> SparkContext:
    settings = SparkConf(_jvm=gateway.jvm)
    settings.setAll(list(conf.items()))
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return SparkContext(conf=settings, gateway=gateway)
    finally:
        with suppress(ValueError):  # not the main thread: then Spark has not changed it either
            # Spark's handler talks to the JVM, even in the middle of another call to it.
            signal.signal(signal.SIGINT, interrupt)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _close(connection: ClientServerConnection, remote_port: int, local_port: int) -> None:  # noqa: ARG001 (takes the place of py4j's)
    connection.close()


def _tame_py4j() -> None:
    """Keep it from two things that harm the rest of the process."""
    # It logs what it is about to raise as well, with the root logger, hence on the terminal.
    logging.getLogger().addFilter(_is_not_from_py4j)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # After a KeyboardInterrupt it has the JVM close the connection, and by mistake all others
    # that come to the same port there: whenever the JVM gets to it, in the midst of other calls.
    ClientServerConnection.shutdown_socket = _close


def _end(gateway: Any) -> None:
    """End the JVM: it does so by itself when its input ends, and takes its workers with it."""
    if SparkContext._gateway is gateway:  # otherwise the next session would use it
        SparkContext._gateway = SparkContext._jvm = None
    with suppress(*JVM_ERRORS):
        gateway.shutdown()
    jvm: subprocess.Popen[bytes] = gateway.proc
    if jvm.stdin:
        with suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables as Spark's launcher is to see them. None: not set."""
    before = {name: os.environ.get(name) for name in changes}
    _set_environment(changes)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
