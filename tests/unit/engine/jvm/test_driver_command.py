import subprocess
import sys

import pytest

from fulmen.engine.jvm.driver_command import (
    LAUNCHER_SETTINGS,
    LAUNCHER_VARIABLES,
    class_path,
    driver_command,
    needs_launcher,
    start_driver,
)

OPTIONS = "spark.driver.extraJavaOptions"


def test_the_launcher_is_not_needed_for_settings_of_ours():
    assert not needs_launcher({OPTIONS: "-Xms1g -Xmn300m", "spark.jars": "a.jar"}, {"HOME": "/"})


@pytest.mark.parametrize("name", LAUNCHER_SETTINGS)
def test_the_launcher_is_needed_for_settings_that_it_alone_understands(name):
    assert needs_launcher({OPTIONS: "", name: "x"}, {})


@pytest.mark.parametrize("name", LAUNCHER_VARIABLES)
def test_the_launcher_is_needed_for_variables_that_it_alone_reads(name):
    assert needs_launcher({OPTIONS: ""}, {name: "x"})
    assert not needs_launcher({OPTIONS: ""}, {name: ""})


def test_the_launcher_is_left_to_refuse_the_size_of_a_heap():
    assert needs_launcher({OPTIONS: "-Xms1g -Xmx2g"}, {})


def test_options_of_java_are_split_as_in_a_shell(tmp_path):
    conf = {"spark.driver.memory": "1g", OPTIONS: "-Da='b c' -Dd=e"}
    command = driver_command(tmp_path, "conf/:jars/*", conf)
    assert command[:6] == [
        *(f"{tmp_path}/bin/java", "-cp", "conf/:jars/*", "-Xmx1g", "-Da=b c", "-Dd=e"),
    ]
    assert command[-5:] == [
        *("--conf", "spark.driver.memory=1g", "--conf", f"{OPTIONS}=-Da='b c' -Dd=e"),
        "pyspark-shell",
    ]


def test_the_newer_of_two_jars_for_the_same_comes_first(tmp_path):
    (tmp_path / "slf4j-api-2.0.jar").touch()
    (tmp_path / "hadoop.jar").touch()
    found = class_path(tmp_path / "conf", tmp_path)
    assert found == f"{tmp_path}/conf/:{tmp_path}/slf4j-api-2.0.jar:{tmp_path}/*"


TELLS = """
import os, struct
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
with open(path + "-", "wb") as f:
    f.write(struct.pack(">ii", 4711, 6) + b"secret")
os.rename(path + "-", path)
print(os.environ["PYTHONHASHSEED"], "is printed", flush=True)
input()
"""


def test_a_driver_tells_its_port_and_its_secret(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        started = start_driver([sys.executable, "-c", TELLS], {}, tmp_path, log)
    jvm, port, secret = started
    assert (port, secret) == (4711, "secret")
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
    jvm.stdin.close()
    jvm.wait()
    assert "0 is printed" in (tmp_path / "log").read_text()


def test_a_driver_that_ends_at_once_has_no_port(tmp_path):
    with open(tmp_path / "log", "wb") as log:
        command = [sys.executable, "-c", "print('no such option'); exit(1)"]
        assert start_driver(command, {}, tmp_path, log) is None
    assert "no such option" in (tmp_path / "log").read_text()


def test_a_driver_that_is_not_waited_for_any_more_is_killed(tmp_path, monkeypatch):
    made, real = [], subprocess.Popen

    class Interrupted(real):
        def poll(self):
            if self not in made:
                made.append(self)
                raise KeyboardInterrupt
            return super().poll()

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with open(tmp_path / "log", "wb") as log, pytest.raises(KeyboardInterrupt):
        start_driver([sys.executable, "-c", "input()"], {}, tmp_path, log)
    assert made[0].returncode == -9
