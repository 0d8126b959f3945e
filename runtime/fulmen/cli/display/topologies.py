"""Topologies of a cluster as a table, a line for each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from fulmen.cli.cluster.kubectl import Json
from fulmen.cli.cluster.topology import condition, state_of
from fulmen.cli.display.formats import count, milliseconds, whole_age
from fulmen.cli.display.output import plain_table, shortened
from fulmen.visible import visible

NO_TOPOLOGIES = "There are no topologies."


class _Latency(BaseModel):
    p50: float | None = None
    p99: float | None = None


class _Transactions(BaseModel):
    committed_per_second: float


class Speed(BaseModel):
    """The speed in a driver's /api/topology."""

    acked_per_second: float
    complete_latency_ms: _Latency
    transactions: _Transactions | None = None

    @property
    def per_second(self) -> float:
        """Trees that are acked, or transactions that are committed, in a second."""
        if self.transactions is not None:
            return self.transactions.committed_per_second
        return self.acked_per_second


@dataclass(frozen=True)
class TableColumns:
    """Which columns there are besides those that are always there.

    Attributes:
        namespace: Whether each line begins with the namespace.
        speeds: The uid of each topology whose driver has answered, and what it said; None: no
            driver was asked.
    """

    namespace: bool = False
    speeds: Mapping[str, Speed] | None = None


def topologies_table(
    topologies: Sequence[Json], now: float, columns: TableColumns | None = None
) -> Table:
    """A line for each topology, as its status has it."""
    columns = columns or TableColumns()
    table = plain_table()
    for name in (*(["namespace"] if columns.namespace else []), "topology"):
        table.add_column(name)
    for name in ("state", "ready"):
        table.add_column(name, no_wrap=True)
    fast = ("per second", "p50", "p99") if columns.speeds is not None else ()
    for name in ("workers", "executors", "tasks", "restarts", *fast, "age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("message")
    for topology in topologies:
        table.add_row(*_row(topology, now, columns))
    return table


def _row(topology: Json, now: float, columns: TableColumns) -> list[str | Text]:
    metadata, status = topology["metadata"], topology.get("status", {})
    workers, ready = status.get("workers", {}), condition(topology, "Ready").get("status")
    desired = workers.get("desired", topology["spec"].get("workers", 1))
    cells: list[str | Text] = [
        shortened(Text(metadata["name"], "bold")),
        state_of(topology),
        Text(ready or "Unknown", "" if ready == "True" else "red"),
        f"{workers.get('ready', 0)}/{desired}",
        str(status.get("executors", 0)),
        str(status.get("tasks", 0)),
        str(status.get("restarts", {}).get("count", 0)),
    ]
    if columns.namespace:
        cells.insert(0, shortened(Text(metadata["namespace"])))
    if columns.speeds is not None:
        cells += _speed(columns.speeds.get(metadata["uid"]))
    cells.append(_age(metadata.get("creationTimestamp"), now))
    cells.append(shortened(Text(visible(status.get("message", "")))))
    return cells


def _speed(speed: Speed | None) -> list[str]:
    if speed is None:
        return ["-", "-", "-"]
    latency = speed.complete_latency_ms
    return [count(speed.per_second), milliseconds(latency.p50), milliseconds(latency.p99)]


def _age(made: str | None, now: float) -> str:
    if made is None:
        return "-"
    return whole_age(max(0.0, now - datetime.fromisoformat(made).timestamp()))


def scaling_sentence(topology: Json) -> str:
    """The operator's last decision, and its opinion now; "" without `autoscale`."""
    found = topology.get("status", {}).get("autoscale")
    if not found:
        return ""
    count = found["workers"]
    parts = [f"autoscale: {count} worker{'' if count == 1 else 's'}"]
    parts += [f" since {found['since']}"] if found.get("since") else []
    parts += [f" ({found['lastChange']})"] if found.get("lastChange") else []
    parts.append(f"; now {found['reason']}")
    parts += [f": {found['message']}"] if found.get("message") else []
    return visible("".join(parts))
