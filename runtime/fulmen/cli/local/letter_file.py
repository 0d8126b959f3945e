"""Reads messages out of files: those that sinks of dead letters wrote, as lines of JSON."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fulmen.cli.bad_input import BadInput
from fulmen.engine.state.letters.message_lines import MessageLineReader
from fulmen.errors import ValidationFailed

MOST_MESSAGES = 100_000
MOST_PROBLEMS = 20
STDIN = Path("-")


def read_messages(reader: MessageLineReader, name: str, lines: Iterable[str]) -> None:
    """Have the lines of a file read.

    Raises:
        BadInput: There are too many messages.
        ValidationFailed: Lines are no messages; it names the first of them.
    """
    reader.read(name, lines)
    if reader.problems:
        raise ValidationFailed(reader.problems[:MOST_PROBLEMS])
    if reader.count > MOST_MESSAGES:
        raise BadInput(
            f"there are more than {MOST_MESSAGES:,} messages: divide the files. Nothing was"
            " changed."
        )


def lines_of(file: Path) -> Iterator[str]:
    """The lines of a file, which may be packed by gzip; `-`: of standard input."""
    try:
        data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        yield from text.decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"'{file}' can't be read: {getattr(error, 'strerror', error)}.") from error
