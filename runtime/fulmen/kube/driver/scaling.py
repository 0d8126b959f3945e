"""The operator's decision about the number of workers, for the page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from fulmen.kube.driver.api import Api, ApiError

KEPT_SECONDS = 10.0
"""Seconds for which an answer of the API server is shown before it is asked again."""
_FIELDS = {
    "workers": "workers",
    "since": "since",
    "lastChange": "last_change",
    "reason": "reason",
    "message": "message",
}
"""The fields of `status.autoscale` that are shown, and their names."""

_log = logging.getLogger(__name__)


class ScalingStatus:
    """`status.autoscale` of the driver's topology, read only on request. `clock`: in seconds."""

    def __init__(
        self, api: Api, topology: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._topology = topology
        self._clock = clock
        self._asked = -KEPT_SECONDS
        self._known: Mapping[str, Any] | None = None

    def latest(self) -> Mapping[str, Any] | None:
        """The status of some seconds ago; None: there is none, or it was never available."""
        if self._clock() - self._asked >= KEPT_SECONDS:
            self._asked = self._clock()
            try:
                found = self._api.topology(self._topology).get("status", {}).get("autoscale")
            except ApiError as error:
                _log.debug("%s. What is known of its scaling may be old", error)
            else:
                self._known = found and {name: found.get(key) for key, name in _FIELDS.items()}
        return self._known
