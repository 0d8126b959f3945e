"""The permission to look at the tuples of a running topology."""

from typing import Annotated

from pydantic import Field

from fulmen.topology.resource.base import FieldName, Model


class Tap(Model):
    """Whether `fulmen tap` and the page may show tuples while the topology runs.

    A change takes effect with the next batch, and closes no instance.
    """

    allowed: Annotated[bool, Field(strict=True)] = False
    """Whether tuples may be shown. They are shown to whoever may forward a port of the driver's
    pod, runs `fulmen run` on this machine, or has the token of the page."""

    mask: tuple[FieldName, ...] = Field((), max_length=256)
    """Fields whose values are shown as `***`, in all streams, and members of that name in values
    that are mappings or objects. Their values do not leave the worker."""
