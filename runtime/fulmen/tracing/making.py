"""Makes the tracer of a driver, if its environment asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fulmen.errors import FulmenError
from fulmen.tracing.settings import TraceSettings

if TYPE_CHECKING:
    from fulmen.tracing.export import OtlpTracer


def tracer_of(
    environ: Mapping[str, str], topology: str, note: Callable[[str], None]
) -> OtlpTracer | None:
    """A tracer as the environment says; None: nothing is traced.

    What is wrong with the settings is no reason not to run: it is told, and nothing is traced.

    Args:
        environ: The environment. OpenTelemetry's SDK reads that of the process besides.
        topology: The name of the topology.
        note: Is told what a person should know, now and later.
    """
    try:
        settings = TraceSettings.of(environ, topology)
        return None if settings is None else _made(settings, topology, note)
    except (FulmenError, ValueError) as error:  # the latter of the SDK, about its own variables
        note(f"nothing is traced: {error}")
        return None


def _made(settings: TraceSettings, topology: str, note: Callable[[str], None]) -> OtlpTracer:
    try:
        from fulmen.tracing.export import OtlpTracer  # importing the SDK takes long
    except ImportError as error:
        raise FulmenError(
            f"it needs OpenTelemetry's SDK: pip install 'fulmen[traces]' ({error})"
        ) from None
    return OtlpTracer(settings, topology, note)
