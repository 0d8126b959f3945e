"""What sinks that replace rows by a key say of rows that take back others."""

from collections.abc import Collection, Iterator

from fulmen.api import Stream
from fulmen.api.times.event_time import RETRACTION


def retraction_warnings(
    stream: Stream, keys: Collection[str], deleted: str | None
) -> Iterator[Warning]:
    """Warn where what is taken back stays in a table, or deletes what has taken its place.

    Args:
        stream: What is written.
        keys: The fields by which a row takes the place of another.
        deleted: The option `deletedField`.
    """
    if RETRACTION not in stream.fields or not keys:
        return
    if deleted is None:
        yield UserWarning(
            f"rows with {RETRACTION!r} take back others, and are written like these. Write"
            f" deletedField: {RETRACTION}, and what is taken back is deleted"
        )
        return
    if all(same & {*keys} for same in stream.parts):
        return
    parts = [repr(min(same)) if same else "a field that is not received" for same in stream.parts]
    yield UserWarning(
        f"rows with one key ({', '.join(keys)}) may come from several tasks in any order, as tasks"
        f" divide rows by {', '.join(parts)}: what is taken back may delete the row that"
        " took its place. Add that to the key, or give the component in front one task"
    )
