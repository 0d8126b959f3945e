"""Draws docs/images/run.svg: what the terminal shows in the middle of a real run of the word count.

Run it with `.venv/bin/python scripts/picture.py [SECONDS]`: how long after the first batch.
"""

import io
import re
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from fulmen.cli.commands.run import make_jobs
from fulmen.cli.display.figures import component_table, live_header
from fulmen.cli.display.meter import Figures, Meter
from fulmen.cli.local.prepared_run import prepare
from fulmen.engine.batches.coordinator import Done
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.totals.totals import Totals

ROOT = Path(__file__).parents[1]
EXAMPLE = "examples/word-count/topology.yaml"
PICTURE = ROOT / "docs" / "images" / "run.svg"
COMMAND = f"$ fulmen run {EXAMPLE}"


class Photographer(Silent):
    """Keeps the figures of one moment, and stops the topology then."""

    def __init__(self, meter: Meter, stop: Stop, seconds: float) -> None:
        self.figures = Figures()
        self._meter = meter
        self._stop = stop
        self._seconds = seconds

    def batch(self, totals: Totals, done: Done) -> None:
        """A batch counted."""
        self._meter.batch(totals, done, time.time())  # noqa: TID251 (shows a real run)
        if not self._stop.drain:
            self.figures = self._meter.figures()
            self._stop.drain = self.figures.seconds >= self._seconds


def figures_after(seconds: float) -> Figures:
    """The figures of a real run."""
    with prepare(ROOT / EXAMPLE, (), None, None, in_process=False) as prepared:
        topology, stop = prepared.runnable.topology, Stop()
        meter = Meter(topology, time.monotonic)
        photographer = Photographer(meter, stop, seconds)
        log_file = Path(tempfile.mkstemp(prefix="fulmen-picture-")[1])
        driver = Driver(
            prepared.runnable,
            make_jobs(prepared, log_file, in_process=False),
            prepared.checkpoint,
            photographer,
        )
        running = driver.start()
        try:
            meter.start()
            running.run(stop)
        finally:
            running.close()
        return photographer.figures


def drawn(figures: Figures) -> str:
    """The picture as SVG, without fonts from elsewhere."""
    console = Console(record=True, width=84, file=io.StringIO(), force_terminal=True)
    header = live_header("word-count", "running", figures)
    console.print(Text(COMMAND, "green"), Text(""), sep="\n")
    console.print(Group(*header, Text(""), component_table(figures.components)))
    svg = console.export_svg(title="fulmen run", unique_id="run")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    PICTURE.write_text(drawn(figures_after(float([*sys.argv, "15"][1]))), encoding="utf-8")
