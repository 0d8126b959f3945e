"""A source that can't tell that it has ended: its topology ends when nothing comes any more."""

from fulmen import BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.testing import run
from fulmen.transactional import OpaqueFileTransactionalSpout

SEEN = []


class Collect(BatchBolt, Committer):
    def prepare(self, conf, context, collector, attempt):
        self.lines = []

    def execute(self, tup):
        self.lines.append(tup[1])

    def finish_batch(self):
        SEEN.extend(self.lines)


def test_it_drains(tmp_path):
    SEEN.clear()
    texts = [f"{n}" for n in range(50)]
    (tmp_path / "a.log").write_text("".join(f"{text}\n" for text in texts))
    source = OpaqueFileTransactionalSpout(f"{tmp_path}/*.log", max_bytes=40, follow=False)
    builder = TransactionalTopologyBuilder("files", "files", source, 2, max_spout_pending=2)
    builder.set_bolt("collect", Collect).global_grouping("files")
    result = run(builder, at_most=200)
    assert texts == SEEN
    assert result.batches < 100
