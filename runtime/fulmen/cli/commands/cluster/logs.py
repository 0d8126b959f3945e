"""`fulmen logs`: what all pods of a topology log, merged in time."""

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from queue import Empty, SimpleQueue
from threading import Thread

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl, Replaced, cluster_command, topology_name
from fulmen.cli.display.log_lines import (
    BEGINNING,
    Container,
    Line,
    LogReader,
    containers,
    merged,
)
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError
from fulmen.kube.contract import DRIVER, PREFLIGHT, WORKER
from fulmen.visible import visible

_LOOK_SECONDS = 2.0
"""How often to look for pods that are new."""
_GATHER_SECONDS = 0.3
"""For so long lines of several pods are gathered, to be put in order."""
_END_SECONDS = 5.0
"""How long a log may take to end when its topology is gone."""
Wanted = Callable[[Json, Sequence[Json]], list[Container]]
_DURATION = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+")


@click.command(short_help="Show what the pods of a topology log, on a cluster.")
@topology_name
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C, also with new pods.")
@click.option("--since", metavar="TIME", help="Only what is not older, such as 90s, 5m or 2h.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each pod."
)
@click.option(
    "-c", "--component", metavar="NAME", help="Only pods that host this spout or bolt now."
)
@click.option(
    "--role",
    type=click.Choice([DRIVER, WORKER, PREFLIGHT]),
    help="Only pods of this kind.",
)
@click.option("--timestamps", is_flag=True, help="Show when each line was written.")
@cluster_command
def logs(
    kubectl: Kubectl,
    name: str,
    follow: bool,
    since: str | None,
    tail: int | None,
    component: str | None,
    role: str | None,
    timestamps: bool,
) -> None:
    """Show what all pods of the topology NAME log: driver, workers and preflight.

    The lines are in the order of their times, each with its pod in front. The pod of a driver that
    failed is among them as long as it is there.
    """
    if since is not None and not _DURATION.fullmatch(since):
        raise BadInput(f"--since {since}: not a time. Write such as 90s, 5m or 2h.")
    options = [f"--since={since}"] if since is not None else []
    options += [f"--tail={tail}"] if tail is not None else []
    topology = kubectl.get(name)
    wanted = partial(containers, component=component, role=role)
    shown = _Shown(kubectl.of(topology), options, timestamps, wanted)
    if follow:
        shown.follow(topology)
    else:
        shown.once(wanted(topology, kubectl.pods(topology)))


class _Shown:
    """Logs that are printed."""

    def __init__(
        self, kubectl: Kubectl, options: Sequence[str], timestamps: bool, wanted: Wanted
    ) -> None:
        self._kubectl, self._options, self._timestamps = kubectl, options, timestamps
        self._wanted = wanted

    def once(self, sources: Sequence[Container]) -> None:
        """Print what there is."""
        texts: dict[Container, str] = {}
        for source in sources:
            if source.waits:
                tell(f"{source.title} has not started: {source.waits}")
                continue
            try:
                texts[source] = self._kubectl.logs(source.pod, source.name, *self._options)
            except BadInput:
                raise
            except FulmenError as error:  # it may have gone meanwhile
                tell(f"{source.title}: {error}")
        if not sources:
            tell("there are no such pods.")
        for line in merged(texts):
            self._print(line)

    def follow(self, topology: Json) -> None:
        """Print what there is and what comes, until Ctrl-C, or until the topology is gone."""
        lines: SimpleQueue[Line] = SimpleQueue()
        followers: dict[Container, _Follower] = {}
        options = self._options
        try:
            while True:
                for source in self._new(topology):
                    before = followers.get(source)
                    if before is None and not source.waits:
                        followers[source] = _Follower(self._kubectl, source, options, lines)
                    elif before is not None and before.is_broken and not source.has_ended:
                        before.stop()
                        followers[source] = _Follower(
                            self._kubectl, source, before.options, lines, before.last
                        )
                options = ()  # of a pod that has come meanwhile, all is new
                self._print_until(lines, time.monotonic() + _LOOK_SECONDS)
                topology = self._again(topology)
        except Replaced as error:
            for follower in followers.values():
                follower.join()
            self._print_until(lines, 0)
            tell(str(error))
        except KeyboardInterrupt:  # how it is meant to end
            return
        finally:
            for follower in followers.values():
                follower.stop()

    def _new(self, topology: Json) -> Sequence[Container]:
        """The new containers to follow; none if the cluster does not answer just now."""
        try:
            return self._wanted(topology, self._kubectl.pods(topology))
        except BadInput:
            raise
        except FulmenError as error:
            tell(str(error))
            return []

    def _again(self, topology: Json) -> Json:
        """The topology as it is now; as it was if the cluster does not answer. Or Replaced."""
        try:
            return self._kubectl.again(topology)
        except BadInput:
            raise
        except FulmenError:  # which `_new` tells
            return topology

    def _print_until(self, lines: "SimpleQueue[Line]", deadline: float) -> None:
        """Print what comes until then; lines that come together in the order of their times."""
        while True:
            try:
                gathered = [lines.get(timeout=max(0.0, deadline - time.monotonic()))]
            except Empty:
                return
            time.sleep(_GATHER_SECONDS)
            while not lines.empty():
                gathered.append(lines.get())
            for line in sorted(gathered, key=attrgetter("time")):
                self._print(line)

    def _print(self, line: Line) -> None:
        stamp = f"{line.stamp or '-'}  " if self._timestamps else ""
        echo(f"{line.source.title}  {stamp}{visible(line.text)}")


class _Follower:
    """Follows the log of one container from a line on, on a thread of its own."""

    def __init__(
        self,
        kubectl: Kubectl,
        source: Container,
        options: Sequence[str],
        lines: "SimpleQueue[Line]",
        after: Line | None = None,
    ) -> None:
        self.options, self.last, self._failed = options, after, False
        where = [source.pod, "--container", source.name, "--timestamps", "--follow"]
        options = options if after is None else [f"--since-time={after.stamp}"]
        self._process: subprocess.Popen[str] = kubectl.start("logs", *where, *options)
        self._thread = Thread(target=self._read, args=(source, lines), daemon=True)
        self._thread.start()

    def _read(self, source: Container, lines: "SimpleQueue[Line]") -> None:
        assert self._process.stdout is not None
        after = self.last
        reader = LogReader(source, after.time if after else BEGINNING)
        for raw in self._process.stdout:
            line = reader.line(raw)
            if line.stamp:  # the API server knows times to the second: some lines come again
                if after and (line.time < after.time or line.stamp == after.stamp):
                    continue
                self.last = line
            self._failed = not line.stamp and self.last is None
            lines.put(line)

    @property
    def is_broken(self) -> bool:
        """Whether it has ended, though not because it was refused."""
        return not self._thread.is_alive() and not self._failed

    def join(self) -> None:
        """Wait until the log has ended, as its pod has."""
        self._thread.join(_END_SECONDS)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._thread.join(_END_SECONDS)
        self._process.wait(_END_SECONDS)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()
