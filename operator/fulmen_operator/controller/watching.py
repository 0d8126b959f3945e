"""Keeps the store as the cluster is: what is listed at the start and from time to time.

In between kopf's watches tell what changes. A watch that breaks off for longer may miss deletions,
so all is listed again now and then: a call for each kind, however many topologies there are.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from fulmen.kube import contract
from fulmen_operator.cluster.api import KINDS, ApiServer, CallFailed, Form, whole
from fulmen_operator.cluster.store import WatchCache, key_of
from fulmen_operator.controller.queue import Queue
from fulmen_operator.model import Key, Object, name_of, uid_of
from fulmen_operator.ownership import CLAIM

WATCHED: Final = (
    "Topology",
    "Pod",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "NetworkPolicy",
    "Service",
    CLAIM,
)
FORBIDDEN: Final = 403
REFRESH_SECONDS: Final = 600
RETRY_SECONDS: Final = 5
PAGE: Final = 20
"""Objects in one answer: each may have a megabyte and a half, which Python takes ten times for."""

logger = logging.getLogger(__name__)


async def refresh(api: ApiServer, store: WatchCache, namespaces: Sequence[str]) -> set[Key]:
    """List all objects with a topology's label, and drop objects that no longer exist.

    A namespace that may not be read, because it was deleted with its Role, does not stop the work
    on others.

    Returns:
        The topologies with news: at the start all of them.

    Raises:
        CallFailed: They could not be listed: in no namespace, or for another reason.
    """
    news: set[Key] = set()
    refused: list[CallFailed] = []
    for namespace in namespaces or ("",):
        try:
            for kind in WATCHED:
                news |= await _refresh(api, store, kind, namespace)
        except CallFailed as error:
            if error.status != FORBIDDEN:
                raise
            refused.append(error)
    if len(refused) == len(namespaces or ("",)):
        raise refused[0]
    for one in refused:
        logger.warning("a namespace is left out, as it may not be read: %s", one)
    return news


async def _refresh(api: ApiServer, store: WatchCache, kind: str, namespace: str) -> set[Key]:
    """ConfigMaps without content: revisions are asked for when they are needed."""
    news: set[Key] = set()
    query = {"limit": str(PAGE)}
    if kind != "Topology":
        query["labelSelector"] = contract.TOPOLOGY_LABEL
    form = Form.METADATA if kind == "ConfigMap" else Form.WHOLE
    found, version, path = [], 0, KINDS[kind].path(namespace)
    while True:
        page = await api.call("GET", path, query=query, form=form)
        for thing in page["items"] or ():
            if store.put(kind, whole(kind, thing)):
                news.add(key_of(kind, thing))
            found.append({"metadata": {"uid": thing["metadata"]["uid"]}})
        version = version or int(page["metadata"]["resourceVersion"])
        if not page["metadata"].get("continue"):
            break
        query = {**query, "continue": page["metadata"]["continue"]}
    among = frozenset([namespace]) if namespace else None
    return news | store.retain(kind, found, version, among)


async def keep_fresh(
    api: ApiServer,
    store: WatchCache,
    namespaces: Sequence[str],
    queue: Queue[Key],
    filled: asyncio.Event,
) -> None:
    """List all at once, and again every ten minutes, for ever; say when it was done first.

    What a list tells first is no news when a watch tells it again, so the topology is put into the
    queue here.
    """
    while True:
        try:
            news = await refresh(api, store, namespaces)
        except CallFailed as error:
            logger.warning("%s. It is tried again in %d s", error, RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        for key in news:
            queue.add(key)
        filled.set()
        await asyncio.sleep(REFRESH_SECONDS)


def take_in(store: WatchCache, kind: str, event: str | None, thing: Object) -> set[Key]:
    """Take in a watch's event.

    Args:
        store: The store that is changed.
        kind: The object's kind.
        event: DELETED, or anything else.
        thing: The object.

    Returns:
        The topologies to be looked at: two, if somebody has changed the object's label. None if it
        was known, such as by the operator's own writing.
    """
    namespace, keys = str(thing["metadata"]["namespace"]), store.keys(kind, thing)
    if event == "DELETED":
        is_news = store.remove(kind, namespace, name_of(thing), uid_of(thing))
    else:
        is_news = store.put(kind, thing)
    return keys if is_news else set()
