"""Files with rows of state: JSON lines, and Parquet. A row is a dictionary of JSON's types.

In Parquet, key and value are columns of texts, which are JSON: so each value keeps its own type.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fulmen.cli.bad_input import BadInput
from fulmen.engine.state.values.json_form import has_shown

AT_ONCE = 10_000
"""So many rows are in memory at a time."""
_JSON = ("key", "value")

Row = Mapping[str, Any]


class RowCounts(NamedTuple):
    """What was written to a file.

    Attributes:
        rows: How many rows.
        shown: How many of them have something that can't be read again.
    """

    rows: int
    shown: int


def writer_of(file: Path) -> Callable[[Iterable[Row]], RowCounts]:
    """Writes rows to a file, which is there when all of them are in it."""
    write = _by_suffix(file, {".jsonl": _write_lines, ".parquet": _write_parquet})

    def written(rows: Iterable[Row]) -> RowCounts:
        counts = [0, 0]

        def counted() -> Iterator[Row]:
            for row in rows:
                counts[0] += 1
                counts[1] += has_shown([row["key"], row["value"]])
                yield row

        with _replacing(file) as temporary:
            write(temporary, counted())
        return RowCounts(*counts)

    return written


def reader_of(file: Path) -> Callable[[Path], Iterator[tuple[str, Row | str]]]:
    """Reads a file's rows, each with where it is; a text says what is wrong about one."""
    read: Callable[[Path], Iterator[tuple[str, Row | str]]]
    read = _by_suffix(file, {".jsonl": _read_lines, ".parquet": _read_parquet})
    return read


def _by_suffix(file: Path, ways: Mapping[str, Any]) -> Any:
    if file.suffix not in ways:
        raise BadInput(f"'{file}': its name has to end with {' or '.join(ways)}.")
    return ways[file.suffix]


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, file)
    except OSError as error:
        raise BadInput(f"'{file}' can't be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _write_lines(file: Path, rows: Iterable[Row]) -> None:
    with file.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=True) + "\n")  # surrogates stay what they are


def _write_parquet(file: Path, rows: Iterable[Row]) -> None:
    rows = iter(rows)
    first = list(islice(rows, 1))
    times = ("window_start", "window_end")
    fields = [("key", pa.string()), ("value", pa.string()), ("task", pa.int32())]
    fields += [(name, pa.int64()) for name in times if first and name in first[0]]
    schema = pa.schema(fields)
    rest = chain(first, rows)
    with pq.ParquetWriter(file, schema) as out:
        while some := list(islice(rest, AT_ONCE)):
            texts = [{**row, **{name: json.dumps(row[name]) for name in _JSON}} for row in some]
            out.write_table(pa.Table.from_pylist(texts, schema))


def _read_lines(file: Path) -> Iterator[tuple[str, Row | str]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            place = f"{file}, line {number}"
            if line.strip():
                yield place, _row_of(place, partial(json.loads, line))


def _row_of(place: str, parse: Callable[[], Row]) -> Row | str:
    try:
        return parse()
    except (ValueError, RecursionError) as error:
        return f"{place}: it is not JSON ({error})"


def _read_parquet(file: Path) -> Iterator[tuple[str, Row | str]]:
    try:
        source = pq.ParquetFile(file)
        if missing := {*_JSON} - {*source.schema_arrow.names}:
            raise BadInput(f"'{file}' has no column {sorted(missing)[0]!r}.")
        number = 0
        for batch in source.iter_batches(AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                place = f"{file}, row {number}"
                if any(type(row[name]) is not str for name in _JSON):
                    yield place, f"{place}: key and value have to be texts with JSON"
                else:
                    yield place, _row_of(place, partial(_parquet_row, row))
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"'{file}' can't be read: {error}") from error


def _parquet_row(row: Row) -> Row:
    return {**row, **{name: json.loads(row[name]) for name in _JSON}}
