"""A task of Spark's that lasts for many batches: what its Python process does, and how it is asked.

To start a job of one stage takes Spark's JVM ten times as long as a light batch takes its worker.
So where the workers are on the driver's machine, one job starts a task for each worker, and the
driver asks these tasks for one stage after another, over a Unix socket. They are tasks as any
others: Spark has placed them, and sees it if their process ends.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path

LONG = "long:"
"""Begins the header of a job of such tasks; the path of the driver's socket follows."""
LOOK_SECONDS = 0.25
"""How often the driver looks for what the connections don't tell: a job that has ended, and whether
it is to go on. A child of a process that has ended may have its end of the connection."""
BYTES_OF_PARTITION = 4
END = b""
"""Asks a task to end."""


class TasksEnded(Exception):
    """One of the tasks has ended, or their job has."""


def serve(path: str, partition: int, run: Callable[[int, float, str], Iterator[bytes]]) -> None:
    """Be the task of a partition: run stages until the driver closes the connection.

    Args:
        path: The driver's socket.
        partition: The one that the task serves.
        run: (stage, after how many seconds to print stacks or 0, header) -> what is sent back; what
            it does after that is done while the driver goes on.
    """
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        own.connect(path)
    except OSError:  # the driver has given up on the job
        own.close()
        return
    with Connection(own.detach()) as driver:
        is_there = _sent(driver, partition.to_bytes(BYTES_OF_PARTITION, "big"))
        while is_there and (request := _received(driver)):
            stage, watch, header = request.decode().split(" ", 2)
            for answer in run(int(stage), float(watch), header):
                is_there = _sent(driver, answer)


def _sent(connection: Connection, message: bytes) -> bool:
    """Send it, and say whether there is still somebody to send it to."""
    try:
        connection.send_bytes(message)
    except OSError:
        return False
    return True


def _received(connection: Connection) -> bytes:
    """The next message; END: the other side has closed the connection, or has ended."""
    try:
        return connection.recv_bytes()
    except (OSError, EOFError):
        return END


class LongTasks:
    """The driver's connections to the tasks of a job, one for each partition.

    Attributes:
        have_begun: Whether all of them have.

    Args:
        path: Where to make the socket, in a folder that is this user's alone.
    """

    def __init__(self, path: Path) -> None:
        self.have_begun = False
        self._path = path
        self._connections: dict[int, Connection] = {}
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(os.fspath(path))
        self._listening.listen()

    def await_all(
        self, partitions: int, deadline: float | None, is_over: Callable[[], bool]
    ) -> None:
        """Wait until all tasks have begun.

        Args:
            partitions: How many there are.
            deadline: Until when, by time.monotonic().
            is_over: Whether the job has ended; called now and then.

        Raises:
            TasksEnded: The job has.
            TimeoutError: It is too late.
        """
        while len(self._connections) < partitions:
            if wait([self._listening], LOOK_SECONDS):
                connection = Connection(self._listening.accept()[0].detach())
                if partition := _received(connection):
                    self._connections[int.from_bytes(partition, "big")] = connection
                else:
                    connection.close()  # the process has ended, and so has its task
            else:
                _look(deadline, is_over)
        self.have_begun = True
        self._stop_listening()

    @property
    def are_there(self) -> bool:
        """Whether no connection has ended while nothing was asked."""
        return not wait(list(self._connections.values()), 0)

    def ask(
        self,
        stage: int,
        watch_seconds: float,
        header: str,
        deadline: float | None,
        is_over: Callable[[], bool],
    ) -> Mapping[int, bytes]:
        """Have all of them run a stage.

        Args:
            stage: Its number.
            watch_seconds: After how long they print what they are doing; 0: never.
            header: What the stage's function gets.
            deadline: Until when, by time.monotonic().
            is_over: Whether the job has ended; called now and then.

        Returns:
            Partition -> what it has sent back.

        Raises:
            TasksEnded: One of them has.
            TimeoutError: It is too late.
        """
        request = f"{stage} {watch_seconds} {header}".encode()
        answers: dict[int, bytes] = {}
        missing = {connection: p for p, connection in self._connections.items()}
        try:
            for connection in missing:
                connection.send_bytes(request)
            while missing:
                ready = wait(list(missing), LOOK_SECONDS)
                for one in ready:
                    assert isinstance(one, Connection)
                    answers[missing.pop(one)] = one.recv_bytes()
                if not ready:
                    _look(deadline, is_over)
        except TimeoutError:
            raise
        except (OSError, EOFError):
            raise TasksEnded from None
        return answers

    def close(self) -> None:
        """Have the tasks end, as soon as they have done what they do."""
        self._stop_listening()
        for connection in self._connections.values():
            _sent(connection, END)  # a child of this process may have its end, and keep it
            connection.close()
        self._connections = {}

    def _stop_listening(self) -> None:
        self._listening.close()
        self._path.unlink(missing_ok=True)


def _look(deadline: float | None, is_over: Callable[[], bool]) -> None:
    if deadline is not None and time.monotonic() >= deadline:
        raise TimeoutError
    if is_over():
        raise TasksEnded
