"""Spark with its classes kept ready, on real JVMs."""

import shutil

import pytest

from fulmen.engine import session
from fulmen.engine.class_archive import ClassArchive, spark_jars
from fulmen.engine.java import find_java
from support.spark_runs import Runs


@pytest.fixture(scope="module")
def archive():
    """The one that `make classes` has made."""
    made = ClassArchive()
    if not made.fits(find_java().path, spark_jars()):
        pytest.skip("no archive of classes: make classes")
    return made


def jvms(workers, folder):
    """The JVMs of a session that runs a batch: the driver's, and those of several workers."""
    runs = Runs(workers, 2, folder)
    try:
        places = runs.once()
        yield {runs.session._gateway.proc.pid, *(jvm for _, jvm in places.values())}
    finally:
        runs.close()


def maps(pid, file):
    """Whether a process has mapped a file."""
    with open(f"/proc/{pid}/maps") as lines:
        return any(line.rstrip().endswith(str(file)) for line in lines)


def test_all_jvms_use_it(archive, tmp_path):
    for found in jvms(2, tmp_path):
        assert len(found) == 3
        assert all(maps(pid, archive.file) for pid in found)


@pytest.mark.parametrize("content", [b"damaged", None], ids=["damaged", "moved"])
def test_with_one_that_no_jvm_can_use_it_starts_all_the_same(
    archive, tmp_path, monkeypatch, content
):
    """One that was moved is made for another class path."""
    other = ClassArchive(tmp_path / "classes")
    shutil.copytree(archive.folder, other.folder)
    if content is not None:
        other.file.write_bytes(content)
    monkeypatch.setattr(session, "ClassArchive", lambda: other)
    for found in jvms(1, tmp_path):
        assert found
        assert not any(maps(pid, other.file) for pid in found)
