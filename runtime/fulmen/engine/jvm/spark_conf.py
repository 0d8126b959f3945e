"""The settings that Spark is started with, and why. Pure.

Two kinds. What the engine's correctness rests on (topology/validation/reserved_settings.py) can't
be changed: a setting of the user's that says otherwise is an error. All else are defaults, chosen
for short batches.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from fulmen.errors import FulmenError
from fulmen.topology.validation.reserved_settings import NEEDED, contradictions

LOG4J = Path(__file__).with_name("log4j2.properties")

DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "fulmen",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "600m",
    # Placing: longer waits hang a job whose worker goes away, and an hour of them hangs it an hour.
    "spark.locality.wait": "2s",
    # Sockets: over TCP each Python task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.task.killTimeout": "2s",
    # A new Python process begins with its imports done.
    "spark.python.daemon.module": "fulmen.engine.spark.python_daemon",
    # Losses: fail at once instead of asking a dead worker again, and notice one that hangs.
    "spark.shuffle.io.maxRetries": "0",
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeout": "30s",
    "spark.network.timeoutInterval": "5s",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.maxNumFailures": "1000000000",
    # Small batches: no compression, and broadcasts that allocate 64 KB instead of 4 MB a stage.
    "spark.broadcast.blockSize": "64k",
    "spark.broadcast.compress": "false",
    "spark.broadcast.checksum": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
    # Nobody looks at Spark's own pages, and nothing may grow without bound.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "200",
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": "1048576",
    "spark.executor.logs.rolling.maxRetainedFiles": "2",
    # Other users of the machine may connect to Spark's ports: they need the secret.
    "spark.authenticate": "true",
}

# SerialGC pauses 3 ms with the little that lives long. Without perf data nothing is left in /tmp by
# a JVM that was killed.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:-UsePerfData -XX:+ExitOnOutOfMemoryError"

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Compiles less well, for a fifth of the time that both compilers take."""
FEW_JVMS = 4
"""A driver that has no more of them beside it has little to do once it is warm: what the better
compiler takes from the first batches, on cores that workers need as well, is never made up for."""

YOUNG_MEGABYTES = 300
"""The largest young generation: it lets the collector run rarely, but within seconds all of it is
touched, and so is memory that the JVM takes."""

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

AT_LAUNCH = ("spark.master", "spark.driver.", "spark.jars", "spark.submit.")
"""Settings that have to be on the JVM's command line. All others are not, as they may be secret."""


def complete(
    given: Mapping[str, str],
    workers: int,
    slots: int,
    folder: Path,
    logs: Path,
    classes: Path | None = None,
) -> dict[str, str]:
    """All settings: the user's, ours, and what follows from them.

    Args:
        given: The user's settings. `spark.{driver,executor}.extraJavaOptions` are added to ours.
            With a `spark.master` the workers are somewhere else, otherwise on this machine.
        workers: The number of workers.
        slots: How many of them share a JVM.
        folder: Where Spark may write on this machine.
        logs: Where a JVM that crashes leaves its report.
        classes: The archive of classes for JVMs of this machine, if there is one.

    Raises:
        FulmenError: The user's settings contradict what the engine rests on.
    """
    jvms = -(-workers // slots)
    needed = {**NEEDED, "spark.cores.max": str(jvms * slots)}
    for _, wrong in contradictions(given, needed):
        raise FulmenError(f"spark.conf: {wrong}. Leave it out.")
    conf = {**DEFAULTS, **given, **needed, "spark.executor.cores": str(slots)}
    conf.setdefault("spark.executor.instances", str(jvms))
    temporary: list[str] = []
    if "spark.master" not in given:
        conf = {**_on_this_machine(folder), **conf, "spark.master": f"local[{workers}]"}
        if not os.statvfs(folder).f_flag & os.ST_NOEXEC:  # Java loads libraries from there
            temporary = [f"-Djava.io.tmpdir={folder}"]
    for role in ("driver", "executor"):
        name = f"spark.{role}.extraJavaOptions"
        ours = java_options(conf[f"spark.{role}.memory"], logs)
        if role == "driver" and "spark.master" in given and jvms <= FEW_JVMS:
            ours.append(QUICK_COMPILER)
        if classes and (role == "driver" or "spark.master" not in given):
            ours.append(f"'-XX:SharedArchiveFile={classes}'")
        conf[name] = " ".join([*ours, *temporary, *filter(None, [given.get(name)])])
    return conf


def _on_this_machine(folder: Path) -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.python.unix.domain.socket.dir": str(folder),
    }


def java_options(heap: str, logs: Path) -> list[str]:
    """The options of a JVM with that heap."""
    size = java_size(heap)
    young = min(YOUNG_MEGABYTES << 20, int(size[:-1]) * _UNITS[size[-1]] // 2)
    return [
        JAVA_OPTIONS,
        f"-Xms{size}",
        f"-Xmn{young >> 10}k",
        f"-Dlog4j2.configurationFile={LOG4J.as_uri()}",
        f"'-XX:ErrorFile={logs}/java_crash_%p.log'",
    ]


def java_size(size: str) -> str:
    """A size of Spark's ("600m", "1gb", "600") as Java spells it. No unit: MiB."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", size.lower())
    if not found:
        raise FulmenError(
            f"spark.conf: '{size}' is not an amount of memory. Write one like '600m'."
        )
    return found[1] + (found[2] or "m")


def at_launch(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that the JVM needs when it starts."""
    return {name: value for name, value in conf.items() if name.startswith(AT_LAUNCH)}
