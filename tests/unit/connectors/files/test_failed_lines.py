"""What it costs to read lines again that have failed."""

import gzip
import io

import pytest

from fulmen.connectors.files import FileSpout
from fulmen.connectors.files.places import local
from support.connectors.file_spouts import SpoutLives


class Counted(io.FileIO):
    """A file that knows how often one like it was opened, moved or read."""

    calls = 0

    def __init__(self, path):
        Counted.calls += 1
        super().__init__(path)

    def seek(self, *place):
        Counted.calls += 1
        return super().seek(*place)

    def readinto(self, buffer):
        Counted.calls += 1
        return super().readinto(buffer)


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_failed_lines_share_the_reads_of_their_file(tmp_path, monkeypatch, compress):
    file = tmp_path / ("a.log" if compress is bytes else "a.log.gz")
    file.write_bytes(compress(b"".join(b"line %d\n" % i for i in range(5000))))
    monkeypatch.setattr(local, "open", lambda p, _: io.BufferedReader(Counted(p)), raising=False)
    life = SpoutLives(FileSpout, path=str(file))
    life.batch(calls=5000)
    bad = sorted(life.pending)[::-10]
    before = Counted.calls
    assert len(life.batch(fails=bad)) == 500
    calls = Counted.calls - before
    assert 0 < calls < 50
    assert len(life.batch(fails=bad)) == 500
    assert Counted.calls - before - calls < 5, "what has failed before is in memory"
