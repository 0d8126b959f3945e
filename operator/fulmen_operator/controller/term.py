"""One term of a leader: it begins with the present state, and leaves nothing to the next term."""

import asyncio
import secrets
from functools import partial
from typing import Final

from fulmen_operator import metrics
from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import ApiServer
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.loop import Memory, work
from fulmen_operator.controller.queue import Queue
from fulmen_operator.controller.watching import keep_fresh
from fulmen_operator.model import Key
from fulmen_operator.settings import Settings

WORKERS: Final = 6


async def serve(api: ApiServer, store: WatchCache, queue: Queue[Key], settings: Settings) -> None:
    """Look after all topologies until it is cancelled.

    Args:
        api: The API server, which is written to only while this operator leads.
        store: The objects that the watches have told. The last writes of another leader may be
            missing, so all is listed before anything is decided.
        queue: All topologies that the watches have told. Each is looked at.
        settings: The operator's.
    """
    queue.restart()
    access = Access(api, partial(secrets.token_urlsafe, 32), store)
    listed, memory = asyncio.Event(), Memory()

    async def begin() -> None:
        await listed.wait()
        await work(queue, access, settings, memory)

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_fresh(api, store, settings.namespaces, queue, listed))
            for _ in range(WORKERS):
                tasks.create_task(begin())
    finally:
        metrics.forget()
