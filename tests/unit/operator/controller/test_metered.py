"""CPU time of a coroutine between its waits."""

import asyncio
from time import thread_time

import pytest

from fulmen_operator.controller.metered import Metered


def burn(seconds):
    end = thread_time() + seconds
    while thread_time() < end:
        pass


async def works():
    burn(0.01)
    await asyncio.sleep(0)
    burn(0.01)
    return "done"


def test_the_time_of_others_does_not_count():
    async def both():
        one = Metered(works())
        task = asyncio.ensure_future(works())
        assert (await one, await task) == ("done", "done")
        return one.seconds

    assert 0.02 <= asyncio.run(both()) < 0.03


def test_a_task_that_is_cancelled_ends_the_coroutine():
    ended = []

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def cancelled():
        async def awaits():
            await Metered(waits())

        task = asyncio.ensure_future(awaits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert ended == [True]
