"""Spark with its classes kept ready, on real JVMs."""

import shutil

import pytest

from fulmen.engine.jvm.class_archive import FIRST_WITHOUT, ClassArchive, spark_jars
from fulmen.engine.jvm.java import find_java
from fulmen.engine.spark import session
from support.runs.spark_runs import Runs


@pytest.fixture(scope="module")
def archive():
    """The one that `make classes` has made; one of nothing with a Java that can't use any."""
    java, made = find_java(), ClassArchive()
    if java.version < FIRST_WITHOUT and not made.fits(java.path, spark_jars()):
        pytest.skip("no archive of classes: make classes")
    return made


def jvms(folder):
    """The JVM of a session that runs a batch."""
    runs = Runs(1, 2, folder)
    try:
        places = runs.once()
        yield {runs.session._gateway.proc.pid, *(jvm for _, jvm in places.values())}
    finally:
        runs.close()


def maps(pid, file):
    """Whether a process has mapped a file."""
    with open(f"/proc/{pid}/maps") as lines:
        return any(line.rstrip().endswith(str(file)) for line in lines)


def test_sparks_jvm_uses_it_if_its_java_can(archive, tmp_path):
    can = find_java().version < FIRST_WITHOUT
    for found in jvms(tmp_path):
        assert [maps(pid, archive.file) for pid in found] == [can]


@pytest.mark.matrix(share=1 / 2)
@pytest.mark.parametrize("content", [b"damaged", None], ids=["damaged", "moved"])
def test_with_one_that_no_jvm_can_use_it_starts_all_the_same(
    archive, tmp_path, monkeypatch, content
):
    """One that was moved is made for another class path."""
    other = ClassArchive(tmp_path / "classes")
    if archive.folder.is_dir():
        shutil.copytree(archive.folder, other.folder)
    if content is not None:
        other.folder.mkdir(exist_ok=True)
        other.file.write_bytes(content)
    monkeypatch.setattr(session, "ClassArchive", lambda: other)
    for found in jvms(tmp_path):
        assert found
        assert not any(maps(pid, other.file) for pid in found)
