"""Shows a running topology on stderr: live on a terminal, else a line now and then.

A thread of its own draws what a meter says, so that batches never wait for the terminal.
"""

import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fulmen.cli.display.formats import elapsed, sentence
from fulmen.cli.display.output import open_console
from fulmen.cli.display.run.figures import (
    WARMING_UP,
    component_table,
    is_warming_up,
    live_header,
    plain_line,
)
from fulmen.cli.display.run.meter import Figures, Meter
from fulmen.engine.totals.failures import REPEAT_SECONDS

DRAW_SECONDS = 0.25
LARGEST_SHARE = 0.04
"""The largest share of one core for drawing: a large table is drawn less often."""
LINE_SECONDS = 5.0
_LINES_BESIDE_TABLE = 7


class RunPhase(Enum):
    """The phase of a run."""

    STARTING = "starting"
    STARTING_SPARK = "starting Spark"
    RUNNING = "running"
    DRAINING = "draining: pending trees end (Ctrl-C again stops at once)"
    ENDING = "ending"


_DRAINING = "draining: active transactions are committed (Ctrl-C again stops at once)"


def phase_text(phase: RunPhase, figures: Figures) -> str:
    """Name the phase in the topology's words."""
    is_transactional = figures.transactions is not None
    return _DRAINING if is_transactional and phase is RunPhase.DRAINING else phase.value


class Display(ABC):
    """Something that shows a topology for as long as it is open."""

    def __init__(
        self, console: Console, name: str, meter: Meter, phase: Callable[[], RunPhase]
    ) -> None:
        self.console = console
        self.name = name
        self.meter = meter
        self.phase = phase
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="fulmen-display", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def line(self, text: str, style: str = "") -> None:
        """Show a line for good. Any thread may."""
        self.console.print(sentence(text, style), soft_wrap=True)

    @property
    def is_starting(self) -> bool:
        """Whether there are no figures yet."""
        return self.phase() in (RunPhase.STARTING, RunPhase.STARTING_SPARK)

    @abstractmethod
    def draw(self) -> None:
        """Show the figures of the moment, if it is time for it."""

    def _draw(self) -> None:
        pause = DRAW_SECONDS
        while not self._ended.wait(pause):
            started = time.thread_time()
            self.draw()
            pause = max(DRAW_SECONDS, (time.thread_time() - started) / LARGEST_SHARE)


class LiveDisplay(Display):
    """Figures that change in place, at the bottom of a terminal; lines scroll by above them."""

    def __init__(
        self, console: Console, name: str, meter: Meter, phase: Callable[[], RunPhase]
    ) -> None:
        super().__init__(console, name, meter, phase)
        self._live = Live(
            console=console, auto_refresh=False, transient=True, get_renderable=self._picture
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._live.stop()

    def draw(self) -> None:
        """Draw anew."""
        self._live.refresh()

    def _picture(self) -> Group:
        phase, figures = self.phase(), self.meter.figures()
        state = phase_text(phase, figures)
        if phase is RunPhase.RUNNING and is_warming_up(figures):
            state = f"{state}, {WARMING_UP}"
        header = live_header(self.name, state, figures)
        if self.is_starting:
            return Group(next(header))
        rows = max(1, self.console.height - _LINES_BESIDE_TABLE - len(figures.waits.sentences))
        return Group(*header, Text(""), component_table(figures.components, rows))


class PlainDisplay(Display):
    """A line every few seconds, one for each wait, and one that says when draining begins."""

    def __init__(
        self,
        console: Console,
        name: str,
        meter: Meter,
        phase: Callable[[], RunPhase],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, name, meter, phase)
        self._clock = clock
        self._next_line = clock() + LINE_SECONDS
        self._is_draining = False
        self._told: dict[str, float] = {}

    def __enter__(self) -> Self:
        self.line(f"{self.name}: {self.phase().value}")
        return super().__enter__()

    def draw(self) -> None:
        """Write the line that is due, if any."""
        if self.phase() is RunPhase.DRAINING and not self._is_draining:
            self._is_draining = True
            self.line(f"{self.name}: {phase_text(RunPhase.DRAINING, self.meter.figures())}")
        now = self._clock()
        if now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            figures = self.meter.figures()
            starting = f"{self.name}: {self.phase().value}, {elapsed(figures.seconds)}"
            self.line(starting if self.is_starting else plain_line(figures))
            self._tell(figures.waits.sentences, now)

    def _tell(self, waits: Sequence[str], now: float) -> None:
        """Write a line for each wait that is new, or was told long ago: its figures may change."""
        told, self._told = self._told, {}
        for wait in waits:
            kind = re.sub(r"\d+", "", wait)
            at = told.get(kind)
            if at is None or now - at >= REPEAT_SECONDS:
                at = now
                self.line(f"  {wait}")
            self._told[kind] = at


def make_display(name: str, meter: Meter, phase: Callable[[], RunPhase]) -> Display:
    """The display that fits what stderr is."""
    console = open_console(sys.stderr)
    # Not what rich takes for a terminal: with FORCE_COLOR that is any file.
    if sys.stderr.isatty() and not console.is_dumb_terminal:
        return LiveDisplay(console, name, meter, phase)
    return PlainDisplay(console, name, meter, phase)
