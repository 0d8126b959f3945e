"""Events, as `kubectl describe` shows them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fulmen.kube import contract
from fulmen_operator.model import Event, Manifest, clipped, text_of

MAX_NOTE: Final = 1024
"""The most characters of an Event's message."""


def event_about(about: Mapping[str, Any], event: Event, now: datetime) -> Manifest:
    """The manifest of an event.

    Args:
        about: The object, as an Event refers to it.
        event: What happened.
        now: The time.
    """
    time = text_of(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{about['name']}.", "namespace": about["namespace"]},
        "involvedObject": dict(about),
        "type": event.type,
        "reason": event.reason,
        "message": clipped(event.message, MAX_NOTE),
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": contract.MANAGER},
        "reportingComponent": contract.MANAGER,
        "reportingInstance": contract.MANAGER,
    }
