"""Rows of streams that `fulmen run --show` prints, batch by batch."""

from collections.abc import Mapping, Sequence

import orjson

from fulmen.cli.bad_input import BadInput
from fulmen.cli.streams import echo, tell
from fulmen.engine.driver.taps.taps import OpenTap, Taps
from fulmen.engine.driver.taps.wanted_tap import WantedTap
from fulmen.topology.problems import did_you_mean, there_are


def wanted_streams(
    texts: Sequence[str], declared: Mapping[str, Mapping[str, object]]
) -> list[WantedTap]:
    """The streams that `--show` names.

    Args:
        texts: Each is `COMPONENT` or `COMPONENT:STREAM`.
        declared: The streams of each component.

    Raises:
        BadInput: There is no such component or stream.
    """
    wanted = []
    for text in texts:
        component, _, stream = text.partition(":")
        for kind, name, among in (
            ("component", component, declared),
            (f"stream of {component!r}", stream, declared.get(component, {})),
        ):
            if name and name not in among:
                cure = did_you_mean(name, among) or there_are(sorted(among) or ["none"])
                raise BadInput(f"--show: there is no {kind} {name!r}. {cure}")
        wanted.append(WantedTap(component, stream))
    return wanted


class ShownRows:
    """Prints rows as the batches that emitted them are committed: a sample, if there are many."""

    def __init__(self, wanted: Sequence[WantedTap]) -> None:
        self._wanted = wanted
        self._taps: list[OpenTap] = []
        self._others = 0

    def __bool__(self) -> bool:
        """Whether there is something to show."""
        return bool(self._wanted)

    def open(self, taps: Taps) -> None:
        """Look at them from the next batch on."""
        self._taps = [taps.open_own(one) for one in self._wanted]

    def batch(self) -> None:
        """Print the rows of a batch that has counted."""
        for tap in self._taps:
            lines, others, _ = tap.taken()
            self._others += others
            for line in lines:
                self._print(orjson.loads(line))

    def _print(self, found: Mapping[str, object]) -> None:
        row = orjson.dumps(found["values"]).decode()
        echo(row if len(self._wanted) == 1 else f"{found['component']}:{found['stream']} {row}")

    def end(self) -> None:
        """Say how many rows there were besides."""
        if self._others:
            tell(f"{self._others:,} more rows are not shown.")
