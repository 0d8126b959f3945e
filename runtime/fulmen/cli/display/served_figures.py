"""Figures that a driver serves as JSON, as far as people see them. Pure."""

from typing import Any

from pydantic import BaseModel, Field, model_validator

from fulmen.api.signals import Lag
from fulmen.cli.display.run.transaction_lines import TransactionFigures
from fulmen.engine.protocol.figures.statistics import FIGURES, Figure, Of
from fulmen.engine.protocol.placed_topology import UnusedState
from fulmen.engine.totals.counted import TreeCounts
from fulmen.engine.totals.waits import WaitKind


class CountsView(BaseModel):
    """Sums of the declared figures that a component, or the topology, has."""

    counts: dict[str, float]

    @model_validator(mode="before")
    @classmethod
    def _with_counts(cls, told: Any) -> Any:
        if not isinstance(told, dict):
            return told
        sums = {figure: told[figure] for figure in FIGURES if figure in told}
        return {**told, "counts": sums}


class LatencyView(BaseModel):
    """The complete latency of the last seconds; None if no tree was acked."""

    p50: float | None
    p99: float | None


class WaitView(BaseModel):
    """A wait of batches or spouts."""

    kind: WaitKind
    component: str
    sentence: str


class FailureView(BaseModel):
    """One kind of reason for which tuples of a component failed."""

    component: str
    count: int
    example: str


class HeldByView(BaseModel):
    """The part of a source that a watermark waits for."""

    component: str
    part: str | None


class TimeView(BaseModel):
    """The event time of a component, in seconds."""

    watermark: float | None
    behind_seconds: float | None
    held_by: HeldByView | None
    timers: int
    late: dict[str, int]
    why: str | None
    is_stuck: bool


class InputView(BaseModel):
    """Counts of a bolt's input from one stream of one component."""

    source: str = Field(alias="from")
    executed: int
    acked: int
    failed: int


class BusiestView(BaseModel):
    """The task of a component with the most to do, and its share of all."""

    task: int
    share: float


class ErrorView(BaseModel):
    """An error that a component has had, and how often."""

    component: str
    task: int
    message: str
    count: int


class StageView(BaseModel):
    """A stage of a batch, and how long it takes; None: there was no batch."""

    stage: int
    components: list[str]
    ms: float | None


class ComponentView(CountsView):
    """A spout, a bolt, or the ackers."""

    name: str
    kind: str
    outputs: list[Any]
    executors: int
    tasks: int
    capacity: float | None
    execute_ms: float | None
    complete_ms: float | None
    pending: int | None
    lag: Lag | None
    time: TimeView | None
    unread: dict[str, int]
    inputs: list[InputView]
    steps: list[dict[str, Any]]
    busiest_task: BusiestView | None

    def has(self, figure: Figure) -> bool:
        """Whether it can have a figure: spouts execute nothing, and some bolts emit nothing."""
        if figure.of is Of.STREAM:
            return bool(self.outputs or self.counts.get(figure))
        return figure.of is not Of.INPUT or self.kind != "spout"


class WorkerView(BaseModel):
    """A worker, or the driver if it hosts executors."""

    worker: int
    present: bool
    busy: float
    run_delay: float
    host: str | None
    pod: str | None
    slot: int | None
    pid: int | None
    memory_bytes: int | None
    executor_count: int


class ServedWorkers(BaseModel):
    """Workers that are asked for, and that are there."""

    wanted: int
    present: int


class BatchesView(CountsView):
    """How many batches counted, and where their time goes."""

    count: int
    failed_attempts: int
    last_failure: str
    phases_ms: dict[str, float | None]
    stages: list[StageView]


class TopologyView(BaseModel):
    """The shown part of a driver's /api/topology; it has more, and newer ones may have more yet."""

    name: str
    state: str
    uptime_seconds: float
    trees: TreeCounts
    transactions: TransactionFigures | None
    waits: list[WaitView]
    kept_state: dict[str, UnusedState]
    failures: list[FailureView]
    errors: list[ErrorView]
    acked_per_second: float
    complete_latency_ms: LatencyView
    components: list[ComponentView]
    worker_counts: ServedWorkers
    workers: list[WorkerView]
    batches: BatchesView

    @property
    def unread(self) -> list[ComponentView]:
        """Components with tuples that are in no result, and that nobody gets."""
        return [component for component in self.components if component.unread]
