"""Kopf's handlers: kopf watches, and each event puts a topology into the queue. No more.

Handlers for creation, updates and deletion, timers and daemons are not used: they would add a
finalizer, which makes deletion hang without the operator, and copy the spec into an annotation.
"""

import asyncio
import math
import random
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any

import kopf

from fulmen.kube import contract
from fulmen_operator import metrics
from fulmen_operator.cluster.api import KINDS, NOT_FOUND, ApiServer, CallFailed
from fulmen_operator.cluster.client import KubernetesApi
from fulmen_operator.cluster.fence import FencedServer
from fulmen_operator.cluster.store import WatchCache
from fulmen_operator.controller.election import Election
from fulmen_operator.controller.queue import Queue
from fulmen_operator.controller.term import serve
from fulmen_operator.controller.watching import PAGE, WATCHED, take_in
from fulmen_operator.manifests.common import CODE
from fulmen_operator.model import Key
from fulmen_operator.settings import Settings

SELECTORS = {"ConfigMap": f"{contract.TOPOLOGY_LABEL},{contract.COMPONENT_LABEL}!={CODE}"}
"""Selectors of kinds of which not all objects with a topology's label are watched."""
STUCK_SECONDS = 300
ANSWER_SECONDS = 8
"""Less than the kubelet waits for an answer."""


class Running:
    """Shared by the handlers: kopf's memo.

    Attributes:
        settings: The operator's.
        queue: The topologies to look at.
        store: The objects that the watches tell.
        task: Stands for leader, and leads. None: it has not begun.
        serves: Whether this operator looks after topologies now.
        left: Seconds for which it may, if its lease is not renewed.
        open: Resources to be closed at the end.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.queue: Queue[Key] = Queue(monotonic, random.random, attrgetter("namespace"))
        self.store = WatchCache()
        self.task: asyncio.Task[None] | None = None
        self.serves = False
        self.left: Callable[[], float] = lambda: math.inf
        self.open = AsyncExitStack()

    async def lead(self, api: ApiServer) -> None:
        """Look after topologies, until that is cancelled."""
        self.serves = True
        try:
            await serve(api, self.store, self.queue, self.settings)
        finally:
            self.serves = False


class NoHistory(kopf.DiffBaseStorage):
    """Replaces kopf's copies of an object's old and new state, which are not used here.

    The copies would take ten times as long as reading an event of a watch.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """An empty copy of the new state."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """No copy of the old state."""
        return None

    def store(self, **_: Any) -> None:
        """Do nothing: it is never called."""


def configure(settings: kopf.OperatorSettings) -> None:
    """Have kopf watch, hold little of what it is told, and do nothing else."""
    settings.posting.enabled = False
    settings.scanning.disabled = True  # namespaces and kinds don't come and go for us
    settings.networking.error_backoffs = [1, 1, 2, 3, 5, 8, 13, 21, *[30] * 10_000]
    for kind in WATCHED:
        if kind != "Topology":
            settings.watching.label_selectors[resource_of(kind)] = SELECTORS.get(
                kind, contract.TOPOLOGY_LABEL
            )
    settings.persistence.diffbase_storage = NoHistory()
    settings.queueing.idle_timeout = 0.5  # for so long kopf holds an object after news of it
    settings.watching.chunk_size = PAGE
    settings.watching.connect_timeout = 30
    settings.networking.request_timeout = 60


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: Running, **_: Any) -> None:
    """Begin to work."""
    configure(settings)
    api = await memo.open.enter_async_context(KubernetesApi())
    await must_be_served(api)
    follow(memo)
    memo.open.enter_context(metrics.served(memo.settings.metrics_port))
    ask = partial(asked, memo, asyncio.get_running_loop())
    memo.open.enter_context(metrics.healthy(memo.settings.probe_port, ask))
    memo.task = asyncio.create_task(led(memo, api))


def follow(memo: Running) -> None:
    """Show Prometheus what only a leader has something to tell of."""
    metrics.follow(
        topologies=lambda: len(memo.queue) if memo.serves else 0,
        leads=lambda: memo.serves and memo.left() > 0,
    )


async def led(memo: Running, api: ApiServer) -> None:
    """Stand for leader and lead; without a lease, lead at once. It does not end."""
    if not memo.settings.lease:
        await memo.lead(api)
        return
    namespace, _, lease = memo.settings.lease.partition("/")
    name = f"{socket.gethostname()}_{secrets.token_hex(4)}"
    election = Election(api, namespace, lease, name, boot_seconds, lambda: memo.lead(fenced))
    memo.left = election.left
    fenced = FencedServer(api, memo.left)
    await election.run()


def boot_seconds() -> float:
    """Seconds that only grow, on Linux also while the machine sleeps, to count leases by."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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
    if memo.task is not None:
        memo.task.cancel()
        await asyncio.gather(memo.task, return_exceptions=True)
    await memo.open.aclose()


@kopf.on.login()
def log_in(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """Log in as the pod's ServiceAccount, or by the kubeconfig."""
    found = kopf.login_with_service_account(settings=settings)
    return found or kopf.login_with_kubeconfig(settings=settings)


def trouble(memo: Running) -> str:
    """Why the operator must be started anew; empty: it is well, also if the API server is away.

    A standby operator only fills the queue.
    """
    stuck = memo.queue.stuck_for() if memo.serves else 0.0
    if stuck > STUCK_SECONDS or (memo.task is not None and memo.task.done()):
        return f"nothing has moved for {stuck:.0f} s"
    return ""


def asked(memo: Running, loop: asyncio.AbstractEventLoop) -> str:
    """Ask for `trouble` from another thread; a loop that does not answer is trouble, too."""

    async def answer() -> str:
        return trouble(memo)

    try:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(ANSWER_SECONDS)
    except TimeoutError:
        return f"no answer for {ANSWER_SECONDS} s"


def resource_of(kind: str) -> tuple[str, str, str]:
    """A kind by its group, version and plural: a metrics server has pods as well."""
    *group, version = KINDS[kind].group.split("/")[2:]
    return "".join(group), version, KINDS[kind].plural


async def changed(kind: str, event: Mapping[str, Any], memo: Running, **_: Any) -> None:
    """Have the topology looked at that an object is of, unless the object is known already."""
    for key in take_in(memo.store, kind, event["type"], event["object"]):
        memo.queue.add(key)


for _kind in WATCHED:
    _labels = {} if _kind == "Topology" else {contract.TOPOLOGY_LABEL: kopf.PRESENT}
    kopf.on.event(*resource_of(_kind), id=_kind, labels=_labels)(partial(changed, _kind))
