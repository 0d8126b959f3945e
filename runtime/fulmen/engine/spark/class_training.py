"""Makes the archive of classes: `python -m fulmen.engine.spark.class_training`. Takes a minute.

Spark is started as for a pod with two workers, with a JVM for the driver and one for the pod, and
runs some jobs, while each JVM writes down which classes it loads. A last JVM puts these into the
archive. It serves a topology on one machine too, whose only JVM does what these two do.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fulmen.engine.jvm.class_archive import FIRST_WITHOUT, ClassArchive, fingerprint, spark_jars
from fulmen.engine.jvm.java import find_java
from fulmen.engine.spark.job_runner import JobRunner
from fulmen.engine.spark.session import JVM_ERRORS, RunningSpark, SessionSettings
from fulmen.errors import FulmenError

WORKERS = 2
STAGES = 3
ROW_BYTES = (10, 10, 100_000, 10)
"""The bytes of each job's rows: Spark reads small results in another way than large ones."""
SECONDS = 300
C1 = "-XX:TieredStopAtLevel=1"
"""These JVMs live for seconds. Those that use the archive may compile with C2."""


def make(archive: ClassArchive) -> None:
    """Make the archive for the Java and the Spark that topologies would run on.

    Raises:
        FulmenError: Spark or Java does not do it. There is no archive then.
        OSError: The folder can't be written.
    """
    java, jars = find_java().path, spark_jars()
    archive.conf_folder.mkdir(parents=True, exist_ok=True)
    archive.made_for.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.folder) as scratch:
        folder = Path(scratch)
        entries = _train(folder)
        names = sorted({line for file in folder.glob("*.loaded") for line in _lines(file)})
        if not names:
            raise FulmenError(f"Java: '{java}' does not say which classes it loads")
        listed, made = folder / "classes", folder / "archive"
        listed.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        # Spark's launcher gives names of folders a slash at the end.
        class_path = ":".join([f"{archive.conf_folder}/", *entries])
        _dump(java, class_path, listed, made)
        archive.class_path.write_text(class_path, encoding="utf-8")
        made.chmod(0o644)
        made.replace(archive.file)
    archive.made_for.write_text(fingerprint(java, jars), encoding="utf-8")


def _lines(file: Path) -> Iterator[str]:
    """The classes of a list, without what holds only for the JVM that wrote it."""
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        if line and not line.startswith("#") and " source: " not in line:  # of another loader
            yield line.partition(" id: ")[0]  # the number of a class, since Java 19


def _train(folder: Path) -> list[str]:
    """Run some jobs; each JVM leaves a list of classes in the folder.

    Returns:
        The class path, without the folder of settings that is the first of it.
    """
    options = f"{C1} '-XX:DumpLoadedClassList={folder}/%p.loaded'"
    settings = SessionSettings(
        workers=WORKERS,
        slots=WORKERS,
        log_file=folder / "log",
        conf={
            "spark.master": f"local-cluster[1,{WORKERS},1024]",
            "spark.authenticate.secret": secrets.token_hex(32),
            **{f"spark.{role}.extraJavaOptions": options for role in ("driver", "executor")},
        },
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = RunningSpark(settings)
    output = spark_jars().parent / "work"  # Spark gives no choice
    session.start()
    try:
        jobs = JobRunner(session, _relay, STAGES, range(WORKERS))
        for size in ROW_BYTES:
            jobs.run(str(size))
        _meet_kubernetes(session)
        _meet_this_machine(session)
        jobs.close()
        jvm: Any = session.sc._jvm
        return str(jvm.System.getProperty("java.class.path")).split(":")[1:]
    finally:
        shutil.rmtree(output / session.sc.applicationId, ignore_errors=True)
        with suppress(OSError):
            output.rmdir()
        session.close()


def _relay(
    stage: int, partition: int, header: str, void: str | None, rows: Iterator[bytes]
) -> Iterator[tuple[int, bytes]]:
    """A stage whose rows all go to the other worker."""
    del stage, void, rows
    yield (partition + 1) % WORKERS, b"." * int(header)


def _meet_kubernetes(session: RunningSpark) -> None:
    """Let the driver's JVM load what it talks to an API server with. There is none."""
    jvm: Any = session.sc._jvm
    fabric8 = jvm.io.fabric8.kubernetes.client
    config = fabric8.ConfigBuilder().withMasterUrl("https://127.0.0.1:1")
    client = fabric8.KubernetesClientBuilder().withConfig(
        config.withRequestRetryBackoffLimit(0).withTrustCerts(True).build()
    )
    with suppress(*JVM_ERRORS):
        client.build().pods().inNamespace("none").list()


def _meet_this_machine(session: RunningSpark) -> None:
    """Let the driver's JVM load what it runs tasks with when it has the workers itself."""
    jvm: Any = session.sc._jvm
    for name in (
        "LocalSchedulerBackend",
        "LocalEndpoint",
        "StatusUpdate",
        "KillTask",
        "ReviveOffers",
    ):
        with suppress(*JVM_ERRORS):
            jvm.java.lang.Class.forName(f"org.apache.spark.scheduler.local.{name}")


def _dump(java_home: Path, class_path: str, listed: Path, made: Path) -> None:
    command = [
        str(java_home / "bin" / "java"),
        "-Xshare:dump",
        C1,
        "-XX:+UseSerialGC",
        f"-XX:SharedClassListFile={listed}",
        f"-XX:SharedArchiveFile={made}",
        "-cp",
        class_path,
    ]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode or not made.exists():
        raise FulmenError(f"Java: the archive of classes was not made: {done.stdout[-500:]}")


def main() -> str | None:
    """Make the archive, unless there is one that fits. Returns what went wrong."""
    try:
        archive, java = ClassArchive(), find_java()
        if java.version >= FIRST_WITHOUT:
            said = f"Java {java.version} can't keep Spark's classes ready; Java 17 can."
            print(said)  # noqa: T201
        elif not archive.fits(java.path, spark_jars()):
            said = "Keeping Spark's classes ready for faster starts (once, a minute) …"
            print(said, flush=True)  # noqa: T201
            make(archive)
    except (FulmenError, OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return None


if __name__ == "__main__":
    sys.exit(main())
