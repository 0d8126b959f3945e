"""`python -m fulmen_operator.check_installation`: what `helm test` runs. A small topology acks.

It makes the topology as any user does, waits until it is ready, asks its driver for its metrics
until messages are acked, and deletes it. What it is to make is in the environment.
"""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from fulmen.kube import contract
from fulmen_operator.cluster.api import KINDS, NOT_FOUND, ApiServer, CallFailed
from fulmen_operator.cluster.client import KubernetesApi
from fulmen_operator.model import condition_of, status_of

TOPOLOGY_ENV = "FULMEN_TEST_TOPOLOGY"
TIMEOUT_ENV = "FULMEN_TEST_TIMEOUT_SECONDS"
LOOK_SECONDS = 2
ENOUGH = 10
"""So many acked messages prove that the topology works."""

Topology = dict[str, Any]


class CheckFailed(Exception):
    """The topology does not do what it should, and will not."""


class Check:
    """One topology, from its creation to its deletion.

    Args:
        api: The API server.
        topology: The topology to make.
        read: Fetches the answer of an HTTP server, by URL.
        tell: Is told of a wait, whenever it changes.
        wait: Waits until it is time to look again.
    """

    def __init__(
        self,
        api: ApiServer,
        topology: Topology,
        read: Callable[[str], Awaitable[str]],
        tell: Callable[[str], None],
        wait: Callable[[], Awaitable[None]],
    ) -> None:
        self._api, self._topology = api, topology
        self._read, self._tell, self._wait = read, tell, wait
        meta = topology["metadata"]
        self._namespace, self._name = meta["namespace"], meta["name"]
        self._told = ""

    async def run(self) -> None:
        """Do it all. CheckFailed or CallFailed says what is wrong; the topology is deleted."""
        await self._delete_earlier()
        is_own = True
        try:
            await self._api.call("POST", KINDS["Topology"].path(self._namespace), self._topology)
            driver = await self._until_ready()
            await self._until_acked(driver)
        except CallFailed as error:
            is_own = not error.is_conflict  # somebody else has made one meanwhile
            raise
        finally:
            if is_own:
                await self._delete()

    async def _until_ready(self) -> str:
        """The name of the driver's pod, which is ready."""
        while True:
            found = await self._api.call("GET", self._path())
            status = status_of(found)
            ready, stalled = condition_of(found, "Ready"), condition_of(found, "Stalled")
            if stalled.get("status") == "True":
                raise CheckFailed(f"{stalled['reason']}: {stalled.get('message', '')}")
            if ready.get("status") == "True" and status.get("driverPod"):
                return str(status["driverPod"])
            self._say(f"{status.get('state', 'Pending')}: {ready.get('message', '')}")
            await self._wait()

    async def _until_acked(self, driver: str) -> None:
        pod = await self._api.call("GET", KINDS["Pod"].path(self._namespace, driver))
        address = pod["status"]["podIP"]
        host = f"[{address}]" if ":" in address else address
        while True:
            try:
                acked = acked_in(await self._read(f"http://{host}:{contract.METRICS_PORT}/metrics"))
            except OSError as error:
                self._say(f"the metrics of {driver} at {host} can't be read: {error}")
            else:
                self._say(f"messages that are acked: {acked:.0f}")
                if acked >= ENOUGH:
                    return
            await self._wait()

    async def _delete_earlier(self) -> None:
        """Delete what an earlier test has left; but nothing that only has its name."""
        try:
            found = await self._api.call("GET", self._path())
        except CallFailed as error:
            if error.status != NOT_FOUND:
                raise
            return
        own = self._topology["metadata"]["labels"].items()
        if not own <= found["metadata"].get("labels", {}).items():
            raise CheckFailed(
                f"there is a topology {self._name!r} in namespace {self._namespace!r} that is none"
                " of this test. Set test.namespace to another namespace, or rename the topology"
            )
        await self._delete()

    async def _delete(self) -> None:
        """Delete it, if it is there, and wait until it is gone."""
        try:
            await self._api.call("DELETE", self._path())
            while True:
                await self._api.call("GET", self._path())
                await self._wait()
        except CallFailed as error:
            if error.status != NOT_FOUND:
                raise

    def _path(self) -> str:
        return KINDS["Topology"].path(self._namespace, self._name)

    def _say(self, text: str) -> None:
        if text != self._told:
            self._told = text
            self._tell(text)


def acked_in(metrics: str) -> float:
    """The number of acked messages of spouts in a driver's metrics."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == "fulmen_acked_total" and not sample.labels["source_stream"]
    )


async def _read(url: str) -> str:
    def get() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


async def check(environ: Mapping[str, str]) -> str:
    """Find out what is wrong; empty: nothing. SIGTERM ends it, and deletes the topology."""
    task = asyncio.current_task()
    assert task is not None, "only within a loop"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    topology, seconds = json.loads(environ[TOPOLOGY_ENV]), int(environ[TIMEOUT_ENV])
    last: list[str] = []

    def tell(text: str) -> None:
        last[:] = [text]
        print(text, flush=True)  # noqa: T201 (the log of the test's pod)

    try:
        async with KubernetesApi() as api:
            async with asyncio.timeout(seconds):
                await Check(api, topology, _read, tell, partial(asyncio.sleep, LOOK_SECONDS)).run()
    except TimeoutError:
        return f"not within {seconds} s. The last that was seen: {''.join(last)}"
    except asyncio.CancelledError:
        return "this pod was told to end, such as by a drain"
    except (CheckFailed, CallFailed) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(asyncio.run(check(os.environ)) or 0)  # an empty text would be a failure, too
