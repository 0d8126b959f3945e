"""Traces: what became of single messages, as spans of OpenTelemetry.

Workers note when tuples of traced trees were executed (engine/protocol/figures/trace_notes.py).
In the driver `following` puts the notes of many batches together until a tree has ended, `spans`
makes spans of them, and `export` hands these to OpenTelemetry's SDK. Only that one imports it.
"""

from fulmen.tracing.making import tracer_of

__all__ = ["tracer_of"]
