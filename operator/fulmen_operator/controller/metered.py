"""Measures a coroutine's use of the one thread that all coroutines share."""

from collections.abc import Coroutine, Generator
from time import thread_time
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """A coroutine that is awaited once, and the CPU time between its waits.

    Attributes:
        seconds: The CPU time so far.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        thrown: BaseException | None = None
        while True:
            begun = thread_time()
            try:
                if thrown is None:
                    awaited = self._coroutine.send(None)
                else:
                    awaited = self._coroutine.throw(thrown)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.seconds += thread_time() - begun
            thrown = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001  # a task is cancelled by it
                thrown = error
