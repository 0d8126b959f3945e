import os

import pytest

from fulmen.engine.jvm.class_archive import ClassArchive, fingerprint
from fulmen.engine.jvm.spark_conf import complete


@pytest.fixture
def java(tmp_path):
    """A Java's home, and a folder of jars."""
    home, jars = tmp_path / "java", tmp_path / "jars"
    home.mkdir()
    jars.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.9"')
    (jars / "a.jar").write_bytes(b"a")
    return home, jars


@pytest.fixture
def archive(tmp_path, java):
    made = ClassArchive(tmp_path / "classes")
    made.folder.mkdir()
    made.made_for.write_text(fingerprint(*java))
    return made


def test_an_archive_fits_the_java_and_jars_that_it_was_made_for(archive, java):
    assert archive.fits(*java)


def test_an_archive_that_was_not_made_fits_nothing(tmp_path, java):
    assert not ClassArchive(tmp_path / "none").fits(*java)


@pytest.mark.parametrize(
    "change",
    [
        lambda home, jars: (home / "release").write_text('JAVA_VERSION="17.0.10"'),
        lambda home, jars: (jars / "b.jar").write_bytes(b"b"),
        lambda home, jars: (jars / "a.jar").write_bytes(b"longer"),
        lambda home, jars: os.utime(jars / "a.jar", (1, 1)),
        lambda home, jars: (home / "release").unlink(),
    ],
    ids=["another Java", "one jar more", "another size", "another time", "no Java"],
)
def test_an_archive_fits_no_other_java_and_no_other_jars(archive, java, change):
    change(*java)
    assert not archive.fits(*java)


def test_jvms_of_this_machine_are_told(archive, tmp_path):
    conf = complete({}, 2, 2, tmp_path, tmp_path, archive.file)
    for role in ("driver", "executor"):
        options = conf[f"spark.{role}.extraJavaOptions"]
        assert f"'-XX:SharedArchiveFile={archive.file}'" in options


def test_workers_elsewhere_have_other_files(archive, tmp_path):
    conf = complete({"spark.master": "k8s://api"}, 2, 1, tmp_path, tmp_path, archive.file)
    assert "SharedArchiveFile" in conf["spark.driver.extraJavaOptions"]
    assert "SharedArchiveFile" not in conf["spark.executor.extraJavaOptions"]
