"""Each line is acked once, whatever happens to files of all kinds, and to tasks."""

import random

import pytest

from fulmen.connectors.files import FileSpout, ParquetSpout
from support.connectors.file_spouts import SpoutLives
from support.worlds.rotated_logs import PATTERNS, Logs, line_of

STEPS = 60


class World:
    """Logs, and the tasks that read them: two that read lines, and one that reads Parquet."""

    def __init__(self, folder, seed):
        self.rng = random.Random(seed)
        self.logs = Logs(folder, self.rng, self.are_read, has_parquet=True)
        path = [str(folder / pattern) for pattern in PATTERNS]
        self.lives = [SpoutLives(FileSpout, tasks=2, index=i, path=path) for i in range(2)]
        parquet = str(folder / "logs" / "*.parquet")
        self.lives.append(SpoutLives(ParquetSpout, path=parquet, fields=["value"], batch_rows=50))
        self.read = set()

    def are_read(self, numbers):
        self.look()
        if self.read.issuperset(map(line_of, numbers)):
            return True
        self.finish()
        assert self.read.issuperset(map(line_of, numbers)), "lines are lost"
        return True

    def finish(self):
        for life in self.lives:
            life.finish()
            life.finish()
        self.look()

    def look(self):
        """Take in what was acked."""
        for life in self.lives:
            for stream, values in life.acked:
                assert stream == "default", values
                assert values[0] not in self.read, f"{values} was acked before"
                self.read.add(values[0])
            life.acked.clear()
            assert not [text for text in life.collector.reported if "lost" in text]

    def ends(self, life):
        ended = [i for i in life.pending if self.rng.random() < 0.7]
        at = self.rng.randint(0, len(ended))
        return ended[:at], ended[at:]

    def step(self):
        self.logs.step()
        for life in self.lives:
            if self.rng.random() < 0.15:
                life.attempt(self.rng.randint(0, 100), *self.ends(life))
                life.start()
            elif self.rng.random() < 0.6:
                life.batch(self.rng.randint(0, 100), *self.ends(life))


@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", range(4))
def test_each_line_of_files_of_all_kinds_is_acked_once(tmp_path, seed):
    world = World(tmp_path, seed)
    for _ in range(STEPS):
        world.step()
    world.logs.finish()
    for life in world.lives:
        life.clock.advance(100)
    world.finish()
    assert world.read == {line_of(n) for n in range(world.logs.written)}
