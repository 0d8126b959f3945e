"""Hands the clients of a driver that has drained over to the driver that replaces it.

The Service leads to this pod for as long as the next one is not ready: requests are held here, and
then passed on. This pod says that it is not ready as soon as the next one is, and goes when nobody
has come to it for a while. It never waits for longer than its grace period, nor for a pod for which
there is no room as long as this one is there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from fulmen.kube.driver.api import Api, ApiError, Json
from fulmen.services.http.handover import Handover

LOOK_SECONDS = 0.5
NO_ROOM_SECONDS = 10
"""Seconds for which the next pod may find no node while this one takes room."""
SETTLED_SECONDS = 10
"""Seconds in which everybody has noticed that the next driver is ready, and this one is not: the
kubelet asks every two seconds, and believes the third answer."""

_log = logging.getLogger(__name__)


class Successor:
    """The pod of the next driver.

    Attributes:
        is_ready: Whether clients are its own by now.
    """

    def __init__(
        self,
        api: Api,
        pod: str,
        handover: Handover,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepare.

        Args:
            api: The API server.
            pod: The name that the next driver's pod will have.
            handover: Of this process.
            clock: The time in seconds; it never goes back.
            sleep: Waits.
        """
        self._api, self._pod, self._handover = api, pod, handover
        self._clock, self._sleep = clock, sleep
        self.is_ready = False

    def hand_over(self, seconds: float) -> None:
        """Keep clients until the next driver has them.

        Args:
            seconds: How long that may take at most.
        """
        deadline = self._clock() + seconds
        _log.info("Clients wait for %s, for at most %d s", self._pod, seconds)
        try:
            if self._is_there(deadline):
                self._settle(deadline)
        finally:
            self._handover.end()

    def _is_there(self, deadline: float) -> bool:
        since = self._clock()
        while self._clock() < deadline:
            pod = self._look()
            if pod is not None and _has(pod, "Ready", "True"):
                self._handover.successor = str(pod["status"]["podIP"])
                self.is_ready = True
                return True
            if pod is None or not _has(pod, "PodScheduled", "False"):
                since = self._clock()
            elif self._clock() - since > NO_ROOM_SECONDS:
                _log.warning("%s finds no room beside this pod: clients are sent away", self._pod)
                return False
            self._sleep(LOOK_SECONDS)
        _log.warning("%s is not ready in time: clients are sent away", self._pod)
        return False

    def _look(self) -> Json | None:
        try:
            return self._api.pod(self._pod)
        except ApiError:  # it is not there yet, or nobody knows
            return None

    def _settle(self, deadline: float) -> None:
        """Wait until everybody knows where to go, and all who have come here are answered."""
        settled = self._clock() + SETTLED_SECONDS
        while self._clock() < deadline and (self._clock() < settled or self._handover.waiting):
            self._sleep(LOOK_SECONDS)


def _has(pod: Json, kind: str, status: str) -> bool:
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == status for one in conditions)
