"""Figures, each declared once, and what a worker sends of them.

Whoever measures adds to what a summary has under the figure's name. The driver puts together what
batches say, and Prometheus, the JSON, the page and the tables of the command loop over `FIGURES`.
So a figure is a line here, and the place that measures it.

A worker reads the clock once for each chunk of tuples, since a reading for each tuple would cost a
tenth of the throughput: every tuple of a chunk counts with the chunk's mean. Counts are exact all
the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from enum import Enum, Flag, auto
from typing import Final, Self

from fulmen.api.signals import StepRows
from fulmen.topology.resource.spec import ACKER

BOUNDS = (
    *(1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of the histograms' buckets in seconds, for anything from an `execute` to a tree."""
UNUSABLE, AHEAD = "unusable", "ahead"
"""Of which tuples without a usable time there are so many: their time can't be used, or it is too
far ahead of the clock."""
PHASES = ("run", "commit", "wait")
"""The phases of a batch."""


class FigureKind(Enum):
    """How that is put together which tasks and batches say."""

    SUM = auto()
    """Numbers are added: `counts`, by component, figure and part."""
    TIMES = auto()
    """Events are counted by the seconds that they took: `times`, by the same."""
    LEVEL = auto()
    """The last value of each task counts: `levels`, by figure and task."""


class Of(Enum):
    """The owners of a figure. Parts are told apart where it has a label besides."""

    STREAM = auto()
    """Each stream that a component emits on: a part."""
    INPUT = auto()
    """Each input of a bolt: a part."""
    STEP = auto()
    """Each step of a pipeline that a component runs, or that runs ahead of its inputs: a part."""
    INPUT_OR_TREES = auto()
    """Each input of a bolt: a part; of a spout, all its trees."""
    COMPONENT = auto()
    AUTHORS_COMPONENT = auto()
    """All but the ackers."""
    SPOUT = auto()
    RESULT_BOLT = auto()
    """A bolt that has kept results: what it emits by itself."""
    SOURCE = auto()
    """A spout, or such a bolt."""
    DECLARES_TIME = auto()
    """A component with an event time."""
    ACKER_TASK = auto()
    TOPOLOGY = auto()


class Shown(Flag):
    """Where people and programs find a figure, besides Prometheus."""

    JSON = auto()
    """A field of the component, or of `batches`; of each input or output that has it, too."""
    RATE = auto()
    """Per second, of the last seconds."""
    PAGE = auto()
    """A column of the page's components, or a tile."""
    TOP = auto()
    """A column of `fulmen top`, or a figure above its table."""
    RUN = auto()
    """A column of what `fulmen run` shows, live and at its end."""


NOWHERE = Shown(0)
_TABLES = Shown.JSON | Shown.RATE | Shown.PAGE | Shown.TOP | Shown.RUN


class Figure(str):
    """A counted or measured figure. It is its own name, so that it can be in keys.

    Attributes:
        of: What has it.
        kind: How its numbers are put together.
        help: What it is, for Prometheus; "": it is no metric by itself.
        metric: Its name there, if that is another one.
        label: What Prometheus calls its parts; "": it has none besides those of `of`.
        parts: All its parts.
        shown: Where else it is shown.
        is_bad: Whether it tells of what goes wrong, so that people should see it.
    """

    of: Of
    kind: FigureKind
    help: str
    metric: str
    label: str
    parts: tuple[str, ...]
    shown: Shown
    is_bad: bool

    def __new__(  # noqa: PLR0913 (a declaration names what differs from others)
        cls,
        name: str,
        of: Of,
        text: str = "",
        kind: FigureKind = FigureKind.SUM,
        *,
        metric: str = "",
        label: str = "",
        parts: tuple[str, ...] = ("",),
        shown: Shown = NOWHERE,
        is_bad: bool = False,
    ) -> Self:
        """Declare one: see the attributes."""
        self = super().__new__(cls, name)
        self.of, self.kind, self.help, self.metric = of, kind, text, metric or name
        self.label, self.parts, self.shown, self.is_bad = label, parts, shown, is_bad
        return self

    @property
    def heading(self) -> str:
        """Its name for people."""
        return self.replace("_", " ")

    @property
    def is_of_components(self) -> bool:
        """Whether each component may have it."""
        return self.of not in (Of.TOPOLOGY, Of.ACKER_TASK)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickle as a text, which is the same key."""
        return str, (str(self),)


_PER_CHUNK = "Timed once per chunk of tuples: each tuple counts with the mean of its chunk."

# Storm's statistics

EMITTED: Final = Figure(
    "emitted", Of.STREAM, "Calls of emit, whatever the number of copies.", shown=_TABLES
)
TRANSFERRED: Final = Figure(
    "transferred",
    Of.STREAM,
    "Copies of tuples sent to tasks.",
    shown=Shown.JSON | Shown.RATE | Shown.PAGE,
)
LEFT_OUT: Final = Figure(
    "left_out",
    Of.INPUT,
    "Tuples of which the input's where, or its functions, left nothing where they were emitted.",
    shown=Shown.JSON,
)
STEP_ROWS: Final = Figure("step_rows", Of.STEP, "Rows that a step of a pipeline got.", label="step")
STEP_GIVEN: Final = Figure(
    "step_given", Of.STEP, "Rows that a step of a pipeline gave.", label="step"
)
STEP_FAILED: Final = Figure(
    "step_failed",
    Of.STEP,
    "Rows for which a step of a pipeline raised.",
    label="step",
    is_bad=True,
)
STEP_FIGURES: Final = {"rows": STEP_ROWS, "given": STEP_GIVEN, "failed": STEP_FAILED}
"""As `StepRows`, the JSON and tables call them."""
EXECUTED: Final = Figure("executed", Of.INPUT, "Calls of execute.", shown=_TABLES)
ACKED: Final = Figure(
    "acked",
    Of.INPUT_OR_TREES,
    "Bolts: inputs that were acked. Spouts: tuple trees that were acked entirely.",
    shown=_TABLES,
)
FAILED: Final = Figure("failed", Of.INPUT_OR_TREES, shown=_TABLES, is_bad=True)
"""Those of a spout include the next two. Prometheus has them all with the reason."""
TIMED_OUT: Final = Figure("timed_out", Of.SOURCE)
CRASHED: Final = Figure("crashed", Of.SPOUT)
EXECUTE: Final = Figure(
    "execute",
    Of.INPUT,
    f"Seconds inside of execute. {_PER_CHUNK}",
    FigureKind.TIMES,
    metric="execute_latency",
    shown=Shown.JSON,
)
PROCESS: Final = Figure(
    "process",
    Of.INPUT,
    f"Seconds from the start of execute to the ack. {_PER_CHUNK}",
    FigureKind.TIMES,
    metric="process_latency",
    shown=Shown.JSON,
)
COMPLETE: Final = Figure(
    "complete",
    Of.SOURCE,
    "Seconds from an emit at which a tree began until the batch in which it was acked counted.",
    FigureKind.TIMES,
    metric="complete_latency",
    shown=Shown.JSON,
)

# Trees and messages

RESULTS_ACKED: Final = Figure("results_acked", Of.RESULT_BOLT)
"""Of trees that began at a bolt, whose inputs are acked and failed, too."""
RESULTS_FAILED: Final = Figure("results_failed", Of.RESULT_BOLT)
REPLAYED: Final = Figure(
    "replayed", Of.SOURCE, "Messages and results that were emitted again after they failed."
)
DEAD_LETTERED: Final = Figure(
    "dead_lettered", Of.SOURCE, "Messages and results given up after maxReplays."
)
DROPPED: Final = Figure("dropped", Of.SPOUT, "Tuples dropped because they kill their workers.")
LETTERS_KEPT: Final = Figure(
    "dead_letters_kept",
    Of.SOURCE,
    "Dead letters in the checkpoint, which `fulmen dead-letters` shows and sends again.",
    FigureKind.LEVEL,
)
PENDING_TREES: Final = Figure(
    "acker_pending_trees", Of.ACKER_TASK, "Tuple trees that an acker task keeps.", FigureKind.LEVEL
)
PENDING_MESSAGES: Final = Figure(
    "spout_pending_messages",
    Of.SPOUT,
    "Messages of a spout that are not acked or failed, or that it was not told of yet.",
    FigureKind.LEVEL,
)
PENDING_RESULTS: Final = Figure(
    "result_pending",
    Of.RESULT_BOLT,
    "Results that are not acked or failed, or that the bolt's task was not told of yet.",
    FigureKind.LEVEL,
)
UNTIMED: Final = Figure(
    "untimed",
    Of.DECLARES_TIME,
    "Tuples that went to the late stream, as they have no usable event time, and why.",
    label="reason",
    parts=(UNUSABLE, AHEAD),
)
ERRORS: Final = Figure(
    "errors",
    Of.AUTHORS_COMPONENT,
    "Exceptions in the component's code, and errors that it reported.",
    shown=Shown.JSON | Shown.PAGE | Shown.TOP | Shown.RUN,
    is_bad=True,
)
STATE_KEYS: Final = Figure(
    "state_keys",
    Of.AUTHORS_COMPONENT,
    "Keys of self.state.",
    FigureKind.LEVEL,
    shown=Shown.JSON | Shown.PAGE | Shown.TOP,
)
STATE_BYTES: Final = Figure(
    "state_bytes",
    Of.AUTHORS_COMPONENT,
    "Bytes that self.state takes in the checkpoint.",
    FigureKind.LEVEL,
    shown=Shown.JSON | Shown.PAGE | Shown.TOP,
)
RESTORED: Final = Figure(
    "restored_tasks", Of.COMPONENT, "Times that a task was restored from the checkpoint."
)

# Batches

BATCHES: Final = Figure("batches", Of.TOPOLOGY, "Batches that counted.")
FAILED_ATTEMPTS: Final = Figure(
    "failed_attempts",
    Of.TOPOLOGY,
    "Attempts of batches that came to nothing and were repeated.",
    shown=Shown.JSON | Shown.PAGE,
    is_bad=True,
)
BATCH: Final = Figure(
    "batch",
    Of.TOPOLOGY,
    "Seconds that batches took to run, to be committed, and to wait for since the one before.",
    FigureKind.TIMES,
    label="phase",
    parts=PHASES,
)
CHECKPOINT_BYTES: Final = Figure(
    "checkpoint_bytes",
    Of.TOPOLOGY,
    "Bytes written to the checkpoint, in commits and in state files beside them.",
    label="part",
    parts=("commit", "state"),
    shown=Shown.JSON | Shown.RATE,
)
CHECKPOINT_SECONDS: Final = Figure(
    "checkpoint_seconds",
    Of.TOPOLOGY,
    "Seconds of commits; and of all workers together, to pickle and write state.",
    label="part",
    parts=("commit", "state"),
)

FIGURES = tuple(found for found in list(vars().values()) if isinstance(found, Figure))

CountKey = tuple[str, str, str]
"""(component, figure, part): the part is a stream, an input `component:stream`, a step or a phase.
Of the topology itself the component is empty."""
LevelKey = tuple[str, int]
"""(figure, task)."""
ChunkTimes = dict[tuple[str, str, int], list[float]]
"""What a worker sends: (component, source, bucket) -> executed, acked, the seconds of either."""
TaskSums = dict[int, list[float]]
"""What a worker sends: task -> tuples emitted, executed and failed, and seconds of work."""
TASK_EMITTED, TASK_EXECUTED, TASK_FAILED, TASK_SECONDS = range(4)
"""The places of these in `TaskSums`."""


def count_step(counts: Counter[CountKey], component: str, step: StepRows) -> None:
    """Add what a step of a component has done."""
    for name, figure in STEP_FIGURES.items():
        counts[component, figure, step.step] += getattr(step, name)


def shown(where: Shown) -> tuple[list[Figure], list[Figure]]:
    """Sums and levels of components that are in a table: of their tuples, and of themselves."""
    figures = [f for f in FIGURES if where in f.shown and f.is_of_components]
    sums = [figure for figure in figures if figure.kind is not FigureKind.TIMES]
    of_tuples = [f for f in sums if f.of in (Of.STREAM, Of.INPUT, Of.INPUT_OR_TREES)]
    return of_tuples, [figure for figure in sums if figure not in of_tuples]


def of_topology(where: Shown) -> list[Figure]:
    """Sums of the topology itself that are shown somewhere."""
    return [f for f in FIGURES if where in f.shown and f.of is Of.TOPOLOGY]


def by_task(levels: Mapping[LevelKey, int], figure: Figure) -> dict[int, int]:
    """The last values of a figure, by task."""
    return {task: n for (what, task), n in levels.items() if what == figure}


def acker_name(task: int) -> str:
    """Under which name an acker task is counted by itself; `ACKER` is all of them together."""
    return f"{ACKER}/{task}"


def is_one_acker(name: str) -> bool:
    """Whether something is counted under the name of an acker task by itself."""
    return name.startswith(f"{ACKER}/")


def add_chunk(
    times: ChunkTimes, component: str, source: str, each: float, executed: int, acked: int
) -> None:
    """Count tuples that took `each` seconds, to be executed, or to be acked, or both alike."""
    key = component, source, bisect_left(BOUNDS, each)
    found = times.get(key)
    if found is None:
        times[key] = [executed, acked, each * executed, each * acked]
        return
    found[0] += executed
    found[1] += acked
    found[2] += each * executed
    found[3] += each * acked


def add_task(
    sums: TaskSums,
    task: int,
    *,
    emitted: int = 0,
    executed: int = 0,
    failed: int = 0,
    seconds: float = 0.0,
) -> None:
    """Count what a task did: once for each chunk, not for each tuple."""
    found = sums.get(task)
    if found is None:
        sums[task] = [emitted, executed, failed, seconds]
        return
    found[TASK_EMITTED] += emitted
    found[TASK_EXECUTED] += executed
    found[TASK_FAILED] += failed
    found[TASK_SECONDS] += seconds
