"""An event loop whose time passes at once when nothing is left to do but to wait."""

import asyncio
import selectors


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: the time of the wait is over already.

    Attributes:
        now: The loop's time.
    """

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


def run(coroutine):
    """What `asyncio.run` does, without waiting. No thread or socket may be waited for."""

    def loop():
        selector = _Skipping()
        made = asyncio.SelectorEventLoop(selector)
        made.time = lambda: selector.now
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(coroutine)


def clock():
    """The time of the loop that runs."""
    return asyncio.get_running_loop().time()
