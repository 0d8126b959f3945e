"""Settings of traces in OpenTelemetry's standard environment variables. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from fulmen.errors import FulmenError

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
SAMPLER, RATIO = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
HTTP = "http/protobuf"
_PARENT_BASED = "parentbased_"
_SAMPLERS = ("always_on", "always_off", "traceidratio")


@dataclass(frozen=True)
class TraceSettings:
    """Which messages are traced, and under which name.

    Attributes:
        ratio: The share of messages that begin a trace.
        follows_parents: Whether a message that came with a trace is traced exactly if that is
            recorded.
        service: The name of the service; None: OpenTelemetry's SDK takes it from the environment.
    """

    ratio: float
    follows_parents: bool
    service: str | None

    @staticmethod
    def of(environ: Mapping[str, str], topology: str) -> TraceSettings | None:
        """Read the variables; None: nothing is traced. FulmenError if one can't be used."""
        if not any(environ.get(name) for name in ENDPOINTS):
            return None
        if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        exporters = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
        if exporters == "none":
            return None
        if exporters != "otlp":
            raise FulmenError(f"OTEL_TRACES_EXPORTER must be otlp or none, not {exporters!r}")
        protocol = next(filter(None, map(environ.get, PROTOCOLS)), HTTP)
        if protocol != HTTP:
            raise FulmenError(f"{PROTOCOLS[1]} must be {HTTP}, not {protocol!r}; its port is 4318")
        name = environ.get(SAMPLER) or f"{_PARENT_BASED}always_on"
        kind = name.removeprefix(_PARENT_BASED)
        if kind not in _SAMPLERS:
            known = [*_SAMPLERS, *(f"{_PARENT_BASED}{kind}" for kind in _SAMPLERS)]
            raise FulmenError(f"{SAMPLER} must be one of {', '.join(known)}, not {name!r}")
        ratio = {"always_on": 1.0, "always_off": 0.0}.get(kind)
        if ratio is None:
            ratio = _ratio(environ.get(RATIO) or "1")
        follows_parents = name.startswith(_PARENT_BASED)
        if not ratio and not follows_parents:
            return None
        return TraceSettings(ratio, follows_parents, None if _is_named(environ) else topology)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise FulmenError(f"{RATIO} must be a number from 0 to 1, not {text!r}")
    return ratio


def _is_named(environ: Mapping[str, str]) -> bool:
    """Whether the environment names the service."""
    attributes = environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    names = [pair.partition("=")[0].strip() for pair in attributes]
    return bool(environ.get("OTEL_SERVICE_NAME")) or "service.name" in names


def secrets_in(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names of variables, and what they have that is not to be shown: the SDK complains aloud.

    That is the values of headers, whether or not they are written as the SDK can read them, and of
    addresses the password and what is behind a question mark.
    """
    for name in HEADERS:
        for header in environ.get(name, "").split(","):
            value = re.split("[=:]", header, maxsplit=1)[-1].strip()
            for text in (value, unquote(value)):
                yield from ((name, part) for part in (text, *text.split()[1:]))  # Bearer TOKEN
    for name in ENDPOINTS:
        try:
            url = urlsplit(environ.get(name, ""))
            password = url.password
        except ValueError:  # which the SDK says
            continue
        found = [password, *(value for _, value in parse_qsl(url.query))]
        yield from ((name, text) for text in found if text)
