"""The command's standard output and error: it ends when nobody reads them any more."""

import _thread
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from typing_extensions import override

from fulmen.engine.worker.author_logs import Printed
from fulmen.interruptions import OutputClosed
from fulmen.visible import visible_lines

CLOSED = 141
"""The exit code in shells of a program that SIGPIPE ends."""


class _Pipe(io.FileIO):
    """A stream that may be a pipe. When its reader has gone, the main thread is unwound."""

    @override
    def write(self, data: "bytes | bytearray | memoryview", /) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            if threading.current_thread() is threading.main_thread():
                raise OutputClosed from None
            self.discard()
            _thread.interrupt_main()  # as Ctrl-C does
            return len(data)

    def discard(self) -> None:
        """Drop all that is written from now on."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def echo(text: object) -> None:
    """Print a text, which may have in it what somebody's data or code says."""
    click.echo(visible_lines(str(text)))


def tell(text: object) -> None:
    """Print on standard error, as a terminal may show it."""
    click.echo(visible_lines(str(text)), err=True)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Meanwhile standard output and error are such streams. Then the process is to end."""
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    pipes, printed = [], []
    for name, stream in before.items():
        with suppress(io.UnsupportedOperation):  # somebody's own, without a file
            pipe = _Pipe(stream.fileno(), "wb", closefd=False)
            pipes.append(pipe)
            printed.append(Printed(stream, pipe, is_buffered=True))
            setattr(sys, name, printed[-1])
    try:
        try:
            yield
        finally:
            for stream in printed:
                stream.flush()
    except OutputClosed:
        for pipe in pipes:
            pipe.discard()
        sys.exit(CLOSED)
    except SystemExit as end:
        if not end.code and (lost := next(filter(None, (one.lost for one in printed)), None)):
            end.code = f"Error: not all that was written could be: {lost.strerror}."
        raise
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)
