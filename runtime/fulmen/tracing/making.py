"""Makes the tracer of a driver, if its environment asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fulmen.errors import FulmenError, error_text, install
from fulmen.secrets import hide, masked
from fulmen.tracing.settings import TraceSettings, secrets_in

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
        return None if settings is None else _made(environ, settings, topology, note)
    except Exception as error:  # noqa: BLE001 (the SDK raises several kinds about its variables)
        said = str(error) if isinstance(error, FulmenError | ValueError) else error_text(error)
        note(f"nothing is traced: {masked(said)}")
        return None


def _made(
    environ: Mapping[str, str],
    settings: TraceSettings,
    topology: str,
    note: Callable[[str], None],
) -> OtlpTracer:
    try:
        from fulmen.tracing.export import OtlpTracer  # importing the SDK takes long
    except ImportError as error:
        raise FulmenError(f"it needs OpenTelemetry's SDK ({error}): {install('traces')}") from None
    for name, text in secrets_in(environ):
        hide(name, [text])
    return OtlpTracer(settings, topology, note)
