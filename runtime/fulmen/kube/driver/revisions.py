"""The revision that the driver runs: read at the start, then watched for what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pydantic import ValidationError

from fulmen.errors import FulmenError
from fulmen.kube import names
from fulmen.kube.contract import REVISION_KEY
from fulmen.kube.contract.revisions import Revision
from fulmen.kube.driver.api import Api, ApiError, Json

FIRST_TRIES = 20
LONGEST_PAUSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Revisions:
    """The driver's revisions, read through the API: mounted ConfigMaps lag by a minute."""

    def __init__(self, api: Api, topology: str) -> None:
        self._api = api
        self._name = names.revision(topology)
        self._stopped = threading.Event()

    def first(self) -> Revision:
        """The revision as it is.

        Raises:
            ApiError: The API server does not answer for minutes, or refuses.
            FulmenError: It is no revision.
        """
        for attempt in range(FIRST_TRIES):
            try:
                return revision_in(self._api.config_map(self._name))
            except ApiError as e:
                if e.status not in (0, 429, 500, 502, 503, 504) or attempt == FIRST_TRIES - 1:
                    raise
                _log.warning("%s. The topology is asked for again", e)
                self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 0.5 * 2**attempt))
        raise AssertionError

    def watch(self, on_revision: Callable[[Revision], None]) -> None:
        """Have `on_revision` called with each, in a thread, until `stop`. Any may be skipped.

        Whatever the API server does: the topology goes on as it was last told.
        """
        args = (on_revision,)
        threading.Thread(target=self._run, args=args, name="fulmen-revisions", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _run(self, on_revision: Callable[[Revision], None]) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._follow(on_revision)
                failures = 0
            except FulmenError as e:
                if failures == 0:
                    _log.warning("%s. The topology continues as it was last read", e)
                failures += 1
                self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 0.2 * 2 ** min(failures, 10)))

    def _follow(self, on_revision: Callable[[Revision], None]) -> None:
        for kind, content in self._api.watch_config_map(self._name):
            if self._stopped.is_set() or kind == "DELETED":  # SIGTERM follows
                return
            on_revision(revision_in(content))


def revision_in(config_map: Json) -> Revision:
    """The revision in a ConfigMap.

    Raises:
        FulmenError: There is none.
    """
    name = config_map.get("metadata", {}).get("name")
    try:
        return Revision.from_json(config_map["data"][REVISION_KEY])
    except (KeyError, ValidationError) as e:
        raise FulmenError(f"ConfigMap {name!r} has no revision in {REVISION_KEY!r}: {e}") from e
