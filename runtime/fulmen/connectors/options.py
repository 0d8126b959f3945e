"""The base of the configurations of all connectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fulmen.api.components.sinks import Guarantee
from fulmen.api.times.event_time import DURATION

Duration = Annotated[str, Field(pattern=DURATION, max_length=20)]
"""A length of time such as 10s: see `fulmen.api.times.event_time.milliseconds`."""


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):  # also of names that lead out of the database
        raise ValueError(
            f"there is no time zone {value!r}. Write one such as Europe/Paris, or UTC"
        ) from None
    return value


Zone = Annotated[str, AfterValidator(_zone)]
"""The name of a time zone."""

ATTEMPT = "tx"
"""The first field of what transactional spouts emit: the attempt."""


def refuse_attempt(fields: Collection[str | None]) -> None:
    """Refuse a field of that name among those of a transactional spout's messages."""
    if ATTEMPT in fields:
        raise ValueError(
            f"the field {ATTEMPT!r} is the attempt of the transaction: give that of `format`"
            " another name"
        )


class Options(BaseModel):
    """The `config` of one component, validated. Unknown keys are mistakes."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


class SinkOptions(Options):
    """Options of every sink."""

    guarantee: Guarantee = "at-least-once"
    """What a sink promises when something is lost: `at-least-once` writes a batch again that is run
    again; `exactly-once` writes rows after they are committed, with a mark. In a transactional
    topology the default is `exactly-once`."""
    any_stream: bool = False
    """Whether inputs may have different fields. Then a row has the fields `component`, `stream` and
    `values`: where the tuple is from, and all its values by name."""
