"""The event loop of a process: what `async` methods of authors run on, in a thread of its own.

It goes on between batches, so that what a client does in the background (keeping connections open)
goes on as well.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.protocol.callbacks.processes import run_delay_seconds, waited_for

T = TypeVar("T")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""By process: a child that was forked has the parent's loop without its thread."""


def _loop(process: int) -> asyncio.AbstractEventLoop:
    with _lock:
        if process not in _loops:
            _loops[process] = asyncio.new_event_loop()
            run = _loops[process].run_forever
            threading.Thread(target=run, name="fulmen-async", daemon=True).start()
        return _loops[process]


def complete(work: Coroutine[Any, Any, T], process: int) -> T:
    """Run a coroutine to its end, and wait for it here. Raises what it raises."""
    ends: list[BaseException] = []
    delay = 0.0

    async def kept() -> T | None:
        nonlocal delay
        before = run_delay_seconds()
        try:
            return await work
        except BaseException as e:  # noqa: BLE001 (SystemExit would end the loop, and nobody hear of it)
            ends.append(e)
            return None
        finally:
            end_child()
            delay = run_delay_seconds() - before

    result: Any = asyncio.run_coroutine_threadsafe(kept(), _loop(process)).result()
    waited_for(delay)
    if ends:
        raise ends[0]
    return result  # type: ignore[no-any-return]


def completed(result: Any, process: int) -> Any:
    """The result of a method of an author's class; of an async one, once it has ended."""
    return complete(result, process) if inspect.iscoroutine(result) else result
