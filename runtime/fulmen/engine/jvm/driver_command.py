"""The command of the driver's JVM, and its start, without Spark's launcher.

The launcher is three shell scripts and a JVM, which read settings and variables to write this one
line: 0.4 s of CPU. Where it has nothing to read, the line is known. A test compares it with that of
the launcher.
"""

import shlex
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

MAIN = "org.apache.spark.deploy.SparkSubmit"
SHELL = "pyspark-shell"
"""What SparkSubmit runs: the server that this process talks to."""

LAUNCHER_VARIABLES = (
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_LAUNCHER_OPTS",
    "SPARK_PREPEND_CLASSES",
    "SPARK_PRINT_LAUNCH_COMMAND",
    "SPARK_SUBMIT_OPTS",
    "_SPARK_CMD_USAGE",
)
LAUNCHER_SETTINGS = (
    "spark.driver.defaultExtraClassPath",
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.submit.deployMode",
)
LAUNCHER_OPTION = "-Xmx"
"""The launcher refuses it among `spark.driver.extraJavaOptions`, in its own words."""

_OPENED = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.invoke", "lang.reflect", "io", "net")),
    *(f"java.base/java.{name}" for name in ("nio", "util", "util.concurrent")),
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    *(f"java.base/sun.{name}" for name in ("nio.ch", "nio.cs", "security.action", "util.calendar")),
    "java.security.jgss/sun.security.krb5",
)
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
"""What Spark's classes need of Java."""

_ENVIRONMENT = {"PYTHONHASHSEED": "0", "SPARK_CONNECT_MODE": "0", "SPARK_SCALA_VERSION": "2.13"}
"""What Spark's scripts add."""
_INFO_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_LOOK_SECONDS = 0.01


def needs_launcher(conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether a setting or a variable says what the launcher alone understands."""
    return (
        any(environ.get(name) for name in LAUNCHER_VARIABLES)
        or any(name in conf for name in LAUNCHER_SETTINGS)
        or LAUNCHER_OPTION in conf["spark.driver.extraJavaOptions"]
    )


def driver_command(java_home: Path, class_path: str, conf: Mapping[str, str]) -> list[str]:
    """The command.

    Args:
        java_home: The Java.
        class_path: Begins with the folder of Spark's settings, which is empty.
        conf: The settings that the JVM needs when it starts.
    """
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return [
        str(java_home / "bin" / "java"),
        "-cp",
        class_path,
        f"-Xmx{conf['spark.driver.memory']}",
        *shlex.split(conf["spark.driver.extraJavaOptions"]),
        *_MODULES,
        MAIN,
        *settings,
        SHELL,
    ]


def class_path(conf_folder: Path, jars: Path) -> str:
    """Spark's class path. It has one jar twice: another library brings an older one of its kind."""
    first = sorted(jars.glob("slf4j-api-*.jar"))[:1]
    return ":".join([f"{conf_folder}/", *map(str, first), f"{jars}/*"])


def start_driver(
    command: Sequence[str], environ: Mapping[str, str], folder: Path, log: IO[bytes]
) -> tuple[subprocess.Popen[bytes], int, str] | None:
    """Start the JVM, and wait until it can be talked to.

    Args:
        command: Of `driver_command`.
        environ: Its environment.
        folder: Where it may tell how: nobody else may read there.
        log: Where everything goes that it prints.

    Returns:
        The process, its port, and the secret that it asks for there. None: it has ended.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        told = Path(scratch, "gateway")
        jvm = subprocess.Popen(
            command,
            env={**environ, **_ENVIRONMENT, _INFO_FILE: str(told)},
            stdin=subprocess.PIPE,  # it ends when this process does
            stdout=log,
            stderr=log,
            start_new_session=True,  # signals of the terminal are for this process only
            preexec_fn=_ignore_interrupts,
        )
        try:
            while not told.exists():
                if jvm.poll() is not None:
                    _close_input(jvm)
                    return None
                time.sleep(_LOOK_SECONDS)
        except BaseException:
            jvm.kill()
            jvm.wait()
            _close_input(jvm)
            raise
        data = told.read_bytes()
    port, length = struct.unpack_from(">ii", data)
    return jvm, port, data[8 : 8 + length].decode()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _close_input(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.stdin:
        jvm.stdin.close()
