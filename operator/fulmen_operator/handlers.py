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
from functools import partial
from time import monotonic
from typing import Any

import kopf
from prometheus_client import start_http_server

from fulmen.kube import contract
from fulmen_operator import metrics
from fulmen_operator.cluster.access import Access
from fulmen_operator.cluster.api import KINDS, NOT_FOUND, CallFailed
from fulmen_operator.cluster.client import KubernetesApi
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.loop import Memory, work
from fulmen_operator.controller.queue import Queue
from fulmen_operator.controller.watching import WATCHED, keep_fresh, take_in
from fulmen_operator.manifests.common import CODE
from fulmen_operator.model import Key
from fulmen_operator.settings import Settings

WORKERS = 4
SELECTORS = {"ConfigMap": f"{contract.TOPOLOGY_LABEL},{contract.COMPONENT_LABEL}!={CODE}"}
"""Where not all objects with a topology's label are watched."""
STUCK_SECONDS = 300


class Running:
    """What the handlers share: kopf's memo.

    Attributes:
        settings: The operator's.
        queue: The topologies to look at.
        store: What the watches tell.
        tasks: Those that look.
        open: What has to be closed at the end.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.queue: Queue[Key] = Queue(monotonic, random.random)
        self.store = WatchCache()
        self.tasks: list[asyncio.Task[None]] = []
        self.open = AsyncExitStack()


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: Running, **_: Any) -> None:
    """Set kopf up to watch and to do nothing else; begin to work."""
    settings.posting.enabled = False
    settings.scanning.disabled = True  # namespaces and kinds don't come and go for us
    settings.networking.error_backoffs = [1, 1, 2, 3, 5, 8, 13, 21, *[30] * 10_000]
    for kind in WATCHED:
        if kind != "Topology":
            settings.watching.label_selectors[resource_of(kind)] = SELECTORS.get(
                kind, contract.TOPOLOGY_LABEL
            )
    settings.watching.connect_timeout = 30
    settings.networking.request_timeout = 60
    api = await memo.open.enter_async_context(KubernetesApi())
    await must_be_served(api)
    secret = partial(secrets.token_urlsafe, 32)
    access = Access(api, lambda: datetime.now(UTC), secret, memo.store)
    metrics.follow(lambda: len(memo.queue))
    server, thread = start_http_server(memo.settings.metrics_port)
    memo.open.callback(thread.join)
    memo.open.callback(server.shutdown)
    filled, memory = asyncio.Event(), Memory()
    listing = keep_fresh(api, memo.store, memo.settings.namespaces, memo.queue, filled)

    async def begin() -> None:
        await filled.wait()  # without knowing all that there is, much would be made twice
        await work(memo.queue, access, memo.settings, memory)

    memo.tasks += [asyncio.create_task(listing)]
    memo.tasks += [asyncio.create_task(begin()) for _ in range(WORKERS)]


async def must_be_served(api: KubernetesApi) -> None:
    """End the operator if the cluster has no topologies: kopf would look for them only once.

    Raises:
        PermanentError: The definition is missing. The next start finds it, if it is made.
    """
    group = f"/apis/{contract.GROUP}/{contract.VERSION}"
    try:
        await api.call("GET", group)
    except CallFailed as error:
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


def resource_of(kind: str) -> tuple[str, str, str]:
    """A kind by its group, version and plural: a metrics server has pods as well."""
    *group, version = KINDS[kind].group.split("/")[2:]
    return "".join(group), version, KINDS[kind].plural


async def changed(kind: str, event: Mapping[str, Any], memo: Running, **_: Any) -> None:
    """Have the topology looked at that an object is of, unless the object is known already."""
    key = take_in(memo.store, kind, event["type"], event["object"])
    if key is not None:
        memo.queue.add(key)


for _kind in WATCHED:
    _labels = {} if _kind == "Topology" else {contract.TOPOLOGY_LABEL: kopf.PRESENT}
    kopf.on.event(*resource_of(_kind), id=_kind, labels=_labels)(partial(changed, _kind))
