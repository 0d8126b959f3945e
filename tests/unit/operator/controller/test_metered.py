"""CPU time of a coroutine between its waits."""

import asyncio

import pytest

from fulmen_operator.controller.metered import Metered
from support.operator.cpu import burn


async def works(seconds):
    burn(seconds)
    await asyncio.sleep(0)
    burn(seconds)
    return "done"


def test_the_time_of_others_does_not_count():
    async def both():
        one = Metered(works(0.01))
        task = asyncio.ensure_future(works(0.1))
        assert (await one, await task) == ("done", "done")
        return one.seconds

    assert 0.02 <= asyncio.run(both()) < 0.1


def test_a_task_that_is_cancelled_ends_the_coroutine():
    ended = []

    async def waits():
        try:
            for _ in range(10):
                await asyncio.sleep(0)
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
