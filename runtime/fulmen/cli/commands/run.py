"""`fulmen run`: a topology on this machine, without a cluster."""

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.display.run.live_display import RunPhase
from fulmen.cli.local.environment import Where
from fulmen.cli.local.local_run import LocalRun
from fulmen.cli.local.prepared_run import Prepared, prepare
from fulmen.cli.local.run_log import open_log
from fulmen.cli.local.shown_rows import ShownRows, wanted_streams
from fulmen.cli.streams import echo, tell
from fulmen.cli.topology_file import TopologyFile, topology_arguments, workers_option
from fulmen.engine.driver.driver import Stop
from fulmen.engine.protocol.jobs import Jobs
from fulmen.engine.worker.author_logs import logged_to
from fulmen.engine.worker.in_process import InProcessJobs
from fulmen.errors import FulmenError
from fulmen.metrics import AccessRules, MetricsServer
from fulmen.own_files import written_whole
from fulmen.testing.components import Killed

STREAMS = {"/dev/stdout": echo, "/dev/stderr": tell}
"""The streams of this process, by the names that `--report` may give."""

STARTS = {Where.IN_PROCESS: RunPhase.STARTING, Where.SPARK: RunPhase.STARTING_SPARK}


class _FiniteRange(click.FloatRange):
    """A `click.FloatRange` without nan and inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


GIVE_UP_SECONDS = 600
"""A job that cron runs must not wait for ever for a row that its sink never takes."""


@click.command(short_help="Run a topology on this machine.")
@topology_arguments
@workers_option
@click.option(
    "--for",
    "seconds",
    type=_FiniteRange(0),
    metavar="SECONDS",
    help="Drain after that time. Default: run until a signal.",
)
@click.option(
    "--until-drained",
    is_flag=True,
    help="Drain when all spouts are exhausted, or nothing has happened for some seconds.",
)
@click.option(
    "--wait-for-more",
    "more",
    type=_FiniteRange(0),
    metavar="SECONDS",
    help="With --until-drained: for so long nothing may have come from spouts that don't know their"
    " end before that is taken for it. Default: some seconds.",
)
@click.option(
    "--end-of-input",
    is_flag=True,
    help="With --until-drained: nothing more will come in another run with the same checkpoint, so "
    "all windows and timers end for good. Default: what they would emit are early results.",
)
@click.option(
    "--give-up-after",
    "give_up",
    type=_FiniteRange(0),
    metavar="SECONDS",
    help="While it drains, or with --until-drained: end with exit code 1 when for so long nothing "
    f"was acked and nothing new emitted. Default: with --until-drained {GIVE_UP_SECONDS}, else"
    " never.",
)
@click.option(
    "--checkpoint",
    metavar="URI",
    help="Where state is kept, and where the next run continues: a folder, file://, s3://, gs:// "
    "or az://. Default: spec.checkpoint.uri, else a temporary folder.",
)
@click.option(
    "--restore-from",
    metavar="SAVEPOINT",
    help="Short for --set spec.restoreFrom.savepoint=SAVEPOINT: go back to a savepoint of this"
    " checkpoint, or begin an empty one from an export, or from CHECKPOINT#NAME. Done once.",
)
@click.option(
    "--show",
    metavar="COMPONENT[:STREAM]",
    multiple=True,
    help="Print the rows that the component emits, each as a line of JSON: a sample, if there are"
    " many. May be given several times.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all counts to FILE, as JSON.",
)
@click.option(
    "--in-process",
    "where",
    type=click.UNPROCESSED,
    flag_value=Where.IN_PROCESS,
    default=Where.SPARK,
    help="Run all workers in this process, without Spark. For trying a topology out.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve metrics for Prometheus, and a page that shows the topology. 0: any free port.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to serve metrics on. The default lets only this machine connect.",
)
def run(
    file: TopologyFile,
    seconds: float | None,
    until_drained: bool,
    more: float | None,
    end_of_input: bool,
    give_up: float | None,
    checkpoint: str | None,
    restore_from: str | None,
    show: tuple[str, ...],
    report: Path | None,
    where: Where,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Run the topology of FILE on this machine: YAML, or Python with an object named `topology`.

    Ctrl-C (or SIGTERM) drains the topology: spouts stop, pending trees end, all is committed. A
    second one stops the topology at once; what is committed stays.

    The exit code is 0 if the topology was drained, 1 if it failed, 2 if FILE or an option can't be
    used.
    """
    if more is not None and not until_drained:
        raise BadInput("--wait-for-more says when --until-drained ends: give both.")
    if end_of_input and not until_drained:
        raise BadInput("--end-of-input says that all ends with --until-drained: give both.")
    if report is not None and not report.absolute().parent.is_dir():
        raise BadInput(f"--report: the folder '{report.absolute().parent}' does not exist.")
    if restore_from is not None:
        wanted = f"spec.restoreFrom.savepoint={restore_from}"
        file = replace(file, assignments=(*file.assignments, wanted))
    with (
        prepare(file, checkpoint, where) as prepared,
        open_log(
            prepared.runnable.topology.name, os.environ, Path.home, datetime.now().astimezone()
        ) as log,
        logged_to(log.write),
    ):
        shown = ShownRows(wanted_streams(show, prepared.runnable.streams))
        prepared = prepared.with_large_batches() if until_drained else prepared
        jobs = make_jobs(prepared, log.file, where)
        stop = Stop(
            after_seconds=seconds,
            when_drained=until_drained,
            more_seconds=more or 0.0,
            more_may_come=prepared.is_kept and not end_of_input,
            give_up_seconds=GIVE_UP_SECONDS if until_drained and give_up is None else give_up,
            drain_seconds=prepared.runnable.topology.spec.message_timeout_seconds,
        )
        local_run = LocalRun(prepared, jobs, stop, log, STARTS[where], shown)
        with _metrics(metrics_host, metrics_port, local_run):
            try:
                local_run.run()
            finally:
                if report is not None:
                    _write_report(report, local_run.totals.report())


def make_jobs(prepared: Prepared, log_file: Path, where: Where) -> Jobs:
    """Choose how batches run."""
    if where is Where.IN_PROCESS:
        return InProcessJobs(losses=(Killed, KeyboardInterrupt))  # Ctrl-C raises neither here
    from fulmen.engine.spark.jobs import LocalSparkJobs  # importing pyspark takes long

    spec = prepared.runnable.topology.spec
    return LocalSparkJobs(
        spec.workers,
        spec.spark.conf,
        prepared.runnable.code_folder,
        log_file,
        prepared.worker_env,
        spec.start_timeout_seconds,
        tell,
    )


def _metrics(host: str, port: int | None, local_run: LocalRun) -> AbstractContextManager[object]:
    """A server of metrics, if there is to be one. Says where."""
    if port is None:
        return nullcontext()
    access = AccessRules.of(os.environ)
    server = MetricsServer(
        host, port, lambda: local_run.driver_totals, None, access, local_run.taps
    )
    tell(f"metrics and the topology's page: {server.url}")
    return server


def _write_report(file: Path, content: Mapping[str, Any]) -> None:
    """Write the file as a whole: whoever reads it finds the old one or the new one."""
    text = json.dumps(content, indent=2)
    if str(file) in STREAMS:  # opened anew, they would begin again where they lead to
        STREAMS[str(file)](text)
        return
    try:
        if file.exists() and not file.is_file():  # a pipe or a device
            file.write_text(f"{text}\n", encoding="utf-8")
            return
        with written_whole(file) as into:
            into.write(f"{text}\n".encode())
    except OSError as error:
        why = error.strerror or error
        raise FulmenError(f"--report: '{file}' can't be written: {why}.") from error
