"""What kopf calls: it watches, and each event puts a topology into the queue. No more.

Handlers for creation, updates and deletion, timers and daemons are not used: they would add a
finalizer, which makes deletion hang without the operator, and copy the spec into an annotation.
"""

import asyncio
import random
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import kopf
from prometheus_client import start_http_server

from fulmen.kube import contract
from fulmen_operator import metrics
from fulmen_operator.access import NOT_FOUND, Access
from fulmen_operator.api import ApiError
from fulmen_operator.cluster import KubernetesApi
from fulmen_operator.loop import Memory, work
from fulmen_operator.model import Key
from fulmen_operator.queue import Queue
from fulmen_operator.settings import Settings

WORKERS = 4
PODS = ("", "v1", "pods")
"""By all its names: a metrics server has pods as well."""
STUCK_SECONDS = 300


class Running:
    """What the handlers share: kopf's memo.

    Attributes:
        settings: The operator's.
        queue: The topologies to look at.
        tasks: Those that look.
        open: What has to be closed at the end.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.queue: Queue[Key] = Queue(monotonic, random.random)
        self.tasks: list[asyncio.Task[None]] = []
        self.open = AsyncExitStack()


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: Running, **_: Any) -> None:
    """Set kopf up to watch and to do nothing else; begin to work."""
    settings.posting.enabled = False
    settings.scanning.disabled = True  # namespaces and kinds don't come and go for us
    settings.networking.error_backoffs = [1, 1, 2, 3, 5, 8, 13, 21, *[30] * 10_000]
    settings.watching.label_selectors[PODS] = contract.TOPOLOGY_LABEL
    settings.watching.connect_timeout = 30
    settings.networking.request_timeout = 60
    api = await memo.open.enter_async_context(KubernetesApi())
    await must_be_served(api)
    access = Access(api, lambda: datetime.now(UTC), lambda: secrets.token_urlsafe(32))
    metrics.follow(lambda: len(memo.queue))
    server, thread = start_http_server(memo.settings.metrics_port)
    memo.open.callback(thread.join)
    memo.open.callback(server.shutdown)
    memory = Memory()
    memo.tasks += [
        asyncio.create_task(work(memo.queue, access, memo.settings, memory)) for _ in range(WORKERS)
    ]


async def must_be_served(api: KubernetesApi) -> None:
    """End the operator if the cluster has no topologies: kopf would look for them only once.

    Raises:
        PermanentError: The definition is missing. The next start finds it, if it is made.
    """
    group = f"/apis/{contract.GROUP}/{contract.VERSION}"
    try:
        await api.call("GET", group)
    except ApiError as error:
        if error.status != NOT_FOUND:
            return  # the watch tries again by itself
        message = f"the cluster serves no topologies ({group}): install the definition in crds/"
        raise kopf.PermanentError(message) from error


@kopf.on.cleanup()
async def stop(memo: Running, **_: Any) -> None:
    """End the work where it is: another operator goes on from there."""
    for task in memo.tasks:
        task.cancel()
    await asyncio.gather(*memo.tasks, return_exceptions=True)
    await memo.open.aclose()


@kopf.on.login()
def log_in(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """As the pod's ServiceAccount, or as the kubeconfig says."""
    found = kopf.login_with_service_account(settings=settings)
    return found or kopf.login_with_kubeconfig(settings=settings)


@kopf.on.probe(id="queue", errors=kopf.ErrorsMode.PERMANENT)
async def is_moving(memo: Running, **_: Any) -> float:
    """Fail when the queue does not move. The API server being away is no reason to be killed."""
    stuck = memo.queue.stuck_for()
    if stuck > STUCK_SECONDS or any(task.done() for task in memo.tasks):
        raise kopf.PermanentError(f"nothing has moved for {stuck:.0f} s")
    return stuck


@kopf.on.event(contract.GROUP, contract.VERSION, contract.PLURAL)
async def topology_changed(name: str, namespace: str | None, memo: Running, **_: Any) -> None:
    """Have the topology looked at. What happened does not matter: all is read anew."""
    memo.queue.add(Key(str(namespace), name))


@kopf.on.event(*PODS, labels={contract.TOPOLOGY_LABEL: kopf.PRESENT})
async def pod_changed(
    labels: Mapping[str, str], namespace: str | None, memo: Running, **_: Any
) -> None:
    """Have the topology looked at that the pod belongs to."""
    memo.queue.add(Key(str(namespace), labels[contract.TOPOLOGY_LABEL]))
