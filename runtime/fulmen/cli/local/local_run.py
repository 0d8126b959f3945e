"""One run of a topology on this machine, from its start to its summary."""

import os
import sys
import time
import traceback
from datetime import datetime

from fulmen.cli.display.output import open_console
from fulmen.cli.display.run.advice import advice, not_acked
from fulmen.cli.display.run.figures import (
    counted_lines,
    error_lines,
    failure_lines,
    summary_lines,
    summary_tables,
    time_lines,
    unread_lines,
)
from fulmen.cli.display.run.live_display import Display, RunPhase, make_display
from fulmen.cli.display.run.meter import Meter
from fulmen.cli.display.run.wait_lines import assumed_end_sentence, still_open_sentence
from fulmen.cli.local.prepared_run import Prepared
from fulmen.cli.local.run_log import RunLog
from fulmen.cli.local.shown_rows import ShownRows
from fulmen.cli.local.signals import StoppedAtOnce, StopSignals
from fulmen.engine.batches.done import Done
from fulmen.engine.driver.driver import Driver, RunningTopology, Stop
from fulmen.engine.driver.taps.taps import Taps
from fulmen.engine.protocol.jobs import Jobs
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.totals.totals import Totals
from fulmen.errors import PASSED_ON, FulmenError, error_text
from fulmen.interruptions import OutputClosed
from fulmen.secrets import masked
from fulmen.topology.resource.spec import Topology
from fulmen.tracing import tracer_of
from fulmen.visible import visible, visible_lines


class Watcher:
    """Told by the driver what happens: it shows and logs that."""

    def __init__(self, topology: Topology, display: Display, log: RunLog, shown: ShownRows) -> None:
        self._topology = topology
        self._shown = shown
        self._display = display
        self._log = log
        self._is_advised = False

    def batch(self, totals: Totals, _done: Done) -> None:
        """A batch counted."""
        self._shown.batch()
        if totals.trees.timed_out and not self._is_advised:
            self._is_advised = True
            for sentence in not_acked(totals, self._topology):
                self._tell(f"hint: {sentence}", "yellow")

    def error(self, error: ErrorReport) -> None:
        """A component reported an error: its traceback goes to the log."""
        kind, style = ("warning", "yellow") if error.is_warning else ("error", "red")
        if error.is_failure:
            kind, style = "failed", "yellow"
        text = f"{kind} in {error.component!r}, task {error.task}: {error.message}"
        self._tell(text, style, error.traceback)

    def attempt_failed(self, number: int, reason: str) -> None:
        """An attempt of a batch came to nothing."""
        self._tell(f"batch {number} is run again: {reason}", "yellow")

    def note(self, text: str) -> None:
        """Tell of something else."""
        self._tell(text)

    def _tell(self, text: str, style: str = "", details: str = "") -> None:
        self._display.line(text, style)
        moment = datetime.now().astimezone()
        said = visible_lines(details)
        self._log.write(f"{moment:%Y-%m-%d %H:%M:%S} {visible(text)}\n{said}")


class LocalRun:
    """A topology's run. What happens is shown on stderr, the summary on stdout.

    If a sink writes rows to stdout, or rows are shown, the summary is on stderr as well.

    Attributes:
        taps: Those who look at its tuples.
    """

    def __init__(
        self,
        prepared: Prepared,
        jobs: Jobs,
        stop: Stop,
        log: RunLog,
        start: RunPhase,
        shown: ShownRows,
    ) -> None:
        """Keep the parts. Nothing is started yet.

        Args:
            prepared: What to run.
            jobs: What runs it.
            stop: When to stop. A signal changes it.
            log: Where to write what is too much for the terminal.
            start: What the run does at first.
            shown: Prints rows of streams.
        """
        self._prepared = prepared
        self._stop = stop
        self._log = log
        self._signals = StopSignals(stop)
        self._phase = start
        topology = prepared.runnable.topology
        self._meter = Meter(topology, time.monotonic, prepared.runnable.streams)
        self._display = make_display(topology.name, self._meter, self._phase_now)
        self._shown = shown
        watcher = Watcher(topology, self._display, log, shown)
        self.taps = Taps()
        self._tracer = tracer_of(os.environ, topology.name, watcher.note)
        self._driver = Driver(
            prepared.runnable,
            jobs,
            prepared.checkpoint,
            watcher,
            taps=self.taps,
            tracer=self._tracer,
        )
        self._jobs = jobs
        self._running: RunningTopology | None = None

    @property
    def totals(self) -> Totals:
        """The counts so far; also after a failure."""
        return self._running.totals if self._running else self._driver.unstarted_totals()

    @property
    def driver_totals(self) -> Totals | None:
        """The driver's totals, for other threads; None as long as it has not started."""
        return self._running.totals if self._running else None

    def run(self) -> None:
        """Run it until its end, and print the summary. The text of a FulmenError is complete."""
        for note in self._prepared.notes:
            self._display.line(note)
        try:
            with self._signals:
                self._run()
        except StoppedAtOnce:
            if self._running is not None and (hung := self._running.recovery.calls.hung):
                self._print_summary("failed")
                raise FulmenError(self._with_log(hung)) from None
            self._print_summary("stopped at once")
            raise FulmenError(
                "stopped at once, by a second signal. What is committed stays: another run with "
                "the same checkpoint continues from there."
            ) from None
        except OutputClosed:  # nobody would read it
            raise
        except FulmenError as error:
            self._print_summary("failed")
            raise FulmenError(self._with_log(str(error))) from error
        except PASSED_ON as error:  # signals raise none of them here
            self._print_summary("failed")
            message = f"a component has ended the driver: {error_text(error)}."
            raise FulmenError(self._with_log(message)) from error
        except Exception as error:  # a mistake of ours
            self._log.write(masked(traceback.format_exc()))
            self._print_summary("failed")
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            raise FulmenError(self._with_log(f"a mistake in Fulmen: {message}.")) from error
        end = None if self._running is None else self._running.end
        if end is not None and end.assumed is not None:
            self._display.line(assumed_end_sentence(end.assumed, self._stop.more_seconds))
        self._print_summary("drained")

    def _run(self) -> None:
        try:
            with self._display:
                self._running = self._driver.start()
                self._meter.start(self._running.totals)
                self._shown.open(self.taps)
                self._phase = RunPhase.RUNNING
                self._running.run(self._stop)
                self._signals.over()
                self._phase = RunPhase.ENDING
                self._running.close()
        finally:
            self._signals.over()  # from here on, all that was started is ended
            if self._running is None:
                self._jobs.close()
            else:
                self._running.close()
            if self._tracer is not None:
                self._tracer.close()

    def _phase_now(self) -> RunPhase:
        is_told = self._signals.asked or not self._stop.when_drained
        if self._phase is RunPhase.RUNNING and self._stop.drain and is_told:
            return RunPhase.DRAINING
        return self._phase

    def _with_log(self, message: str) -> str:
        if not self._log.has_something or str(self._log.file) in message:
            return message
        return f"{message}\nMore is in '{self._log.file}'."

    def _print_summary(self, end: str) -> None:
        totals = self.totals
        if not totals.batches and end == "failed":
            return
        runnable = self._prepared.runnable
        self._shown.end()
        console = open_console(sys.stderr if runnable.printing or self._shown else sys.stdout)
        for line in summary_lines(totals, runnable.topology, end):
            console.print(visible(line), soft_wrap=True)
        for table in summary_tables(totals, runnable.topology, runnable.streams):
            console.print()
            console.print(table)
        hints = [f"hint: {sentence}" for sentence in advice(totals, runnable.topology)]
        counted = [*counted_lines(totals, runnable.topology), *time_lines(totals)]
        counted += unread_lines(totals)
        running = self._running
        if end == "drained" and running is not None and running.coordinator.turns.may_go_on:
            counted += filter(None, [still_open_sentence(totals)])
        for line in [*counted, *error_lines(totals), *failure_lines(totals), *hints]:
            console.print()
            console.print(visible(line), soft_wrap=True)
        if end == "drained" and self._log.has_something:
            console.print(f"\nlog: {self._log.file}", soft_wrap=True)
