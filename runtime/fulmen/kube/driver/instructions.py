"""The driver's plan: read at the start, then watched for what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pydantic import ValidationError

from fulmen.errors import FulmenError
from fulmen.kube.contract import PLAN_KEY, DriverPlan, plan_name
from fulmen.kube.driver.api import Api, ApiError, Json

FIRST_TRIES = 20
LONGEST_PAUSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Plans:
    """The plan of one topology, read through the API: mounted ConfigMaps lag by a minute."""

    def __init__(self, api: Api, topology: str) -> None:
        self._api = api
        self._name = plan_name(topology)
        self._stopped = threading.Event()

    def first(self) -> DriverPlan:
        """The plan as it is.

        Raises:
            ApiError: The API server does not answer for minutes, or refuses.
            FulmenError: It is no plan.
        """
        for attempt in range(FIRST_TRIES):
            try:
                return plan_in(self._api.config_map(self._name))
            except ApiError as e:
                if e.status not in (0, 429, 500, 502, 503, 504) or attempt == FIRST_TRIES - 1:
                    raise
                _log.warning("%s; trying again", e)
                self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 0.5 * 2**attempt))
        raise AssertionError

    def watch(self, on_plan: Callable[[DriverPlan], None]) -> None:
        """Have `on_plan` called with each version, in a thread, until `stop`. Any may be skipped.

        Whatever the API server does: the topology goes on as it was last told.
        """
        args = (on_plan,)
        threading.Thread(target=self._run, args=args, name="fulmen-plan", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _run(self, on_plan: Callable[[DriverPlan], None]) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._follow(on_plan)
                failures = 0
            except FulmenError as e:
                if failures == 0:
                    _log.warning("%s; going on as last told", e)
                failures += 1
                self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 0.2 * 2 ** min(failures, 10)))

    def _follow(self, on_plan: Callable[[DriverPlan], None]) -> None:
        config_map = self._api.config_map(self._name)
        on_plan(plan_in(config_map))
        version = config_map["metadata"]["resourceVersion"]
        for kind, content in self._api.watch_config_map(self._name, version):
            if self._stopped.is_set() or kind == "DELETED":  # SIGTERM follows
                return
            on_plan(plan_in(content))


def plan_in(config_map: Json) -> DriverPlan:
    """The plan in a ConfigMap.

    Raises:
        FulmenError: There is none.
    """
    name = config_map.get("metadata", {}).get("name")
    try:
        return DriverPlan.from_json(config_map["data"][PLAN_KEY])
    except (KeyError, ValidationError) as e:
        raise FulmenError(f"ConfigMap {name!r} has no plan in {PLAN_KEY!r}: {e}") from e
