"""Spark's entry into a worker's Python process, for one partition of one stage.

What the stage does is not here: that is a function which knows nothing of Spark. Here it is called
so that Spark keeps the process: nothing is raised, and the input is read to its end.
"""

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.serializers import FramedSerializer, pack_long
from pyspark.taskcontext import TaskContext

from fulmen.engine.spark.rdds.long_task import LONG, serve
from fulmen.engine.worker import process
from fulmen.errors import error_text
from fulmen.secrets import masked

StageFunction = Callable[[int, int, str, str | None, Iterator[bytes]], Iterable[tuple[int, bytes]]]
"""(stage, partition, header, void, rows) -> (partition of the next stage, row)."""

HEADER = "fulmen.header"
LENGTH_BYTES = 4


class Raw(FramedSerializer):
    """Rows are bytes already."""

    def dumps(self, obj: bytes) -> bytes:
        """The row as it is written."""
        return obj

    def loads(self, obj: bytes) -> bytes:
        """The row as it was written."""
        return obj


_guard = process.RepeatGuard()
_garbage = process.CollectionPauses()
_is_adopted = False


def run_stage(
    function: StageFunction,
    stage: int,
    order: Sequence[int],
    is_last: bool,
    split: int,
    rows: Iterator[bytes],
) -> Iterator[bytes]:
    """Run one partition of one stage. Spark calls it.

    Args:
        function: What the stage does.
        stage: Its number.
        order: The partition of each of Spark's tasks.
        is_last: Whether its rows go to the driver.
        split: Spark's number of the task within a part of the stage, which says nothing here.
        rows: The input.

    Never raises for anything that `function` does: Spark would end this process and those that run
    beside it. Rows are read to their end, or Spark would end it as well.
    """
    del split
    global _is_adopted
    if not _is_adopted:
        process.adopt()
        _is_adopted = True
    context = TaskContext.get()
    assert context is not None  # this is called by Spark only
    partition = order[context.partitionId()]
    epoch, watch, header = (context.getLocalProperty(HEADER) or "").split(" ", 2)
    void = _guard.objection(int(epoch), partition, context.attemptNumber())
    if header.startswith(LONG):
        serve(header.removeprefix(LONG), partition, partial(_asked, function, partition, void))
    else:
        call = partial(function, stage, partition, header)
        with _batch(float(watch)):
            if is_last:
                yield joined(row for _, row in _outputs(call, void, rows, None))
            else:
                for destination, row in _outputs(call, void, rows, range(len(order))):
                    yield pack_long(destination)
                    yield row
    for _ in rows:
        pass


@contextmanager
def _batch(watch_seconds: float) -> Iterator[None]:
    """While a stage of a batch runs, and once more for what it leaves behind."""
    _garbage.begin()
    process.watch(watch_seconds)
    try:
        yield
    finally:
        process.unwatch()
        _garbage.end()


def _asked(
    function: StageFunction,
    partition: int,
    void: str | None,
    stage: int,
    watch_seconds: float,
    header: str,
) -> Iterator[bytes]:
    """Run a stage in a task that lasts: all of its rows go to the driver, as one."""
    with _batch(watch_seconds):
        call = partial(function, stage, partition, header)
        yield joined(row for _, row in _outputs(call, void, iter(()), None))


def _outputs(
    call: Callable[[str | None, Iterator[bytes]], Iterable[tuple[int, bytes]]],
    void: str | None,
    rows: Iterator[bytes],
    destinations: range | None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the outputs of the stage's function; if it raises, those for a void batch."""
    try:
        for output in call(void, rows):
            if destinations is not None and output[0] not in destinations:
                # Spark would take the remainder, and give the row to the wrong partition
                raise IndexError(f"a row for partition {output[0]} of {len(destinations)}")
            yield output
    except GeneratorExit:
        raise
    except BaseException as e:  # noqa: BLE001 - a component may call sys.exit, or be out of memory
        sys.stderr.write(masked(traceback.format_exc()))
        yield from call(error_text(e), iter(()))


def joined(rows: Iterable[bytes]) -> bytes:
    """Several rows as one, so that the driver gets as many as there are partitions."""
    parts: list[bytes] = []
    for row in rows:
        parts += (len(row).to_bytes(LENGTH_BYTES, "big"), row)
    return b"".join(parts)


def separated(joined_rows: bytes) -> Iterator[bytes]:
    """The rows that `joined` was given."""
    at = 0
    while at < len(joined_rows):
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(joined_rows[at:start], "big")
        yield joined_rows[start:at]
