"""What can be said of options as long as some of them are only known where the component runs."""

import re
from collections.abc import Collection, Iterator
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ValidationError

from fulmen.api.declarer import output_streams
from fulmen.errors import DeclarationError
from fulmen.topology.configuration.option_problems import place_of
from fulmen.topology.configuration.placeholders import PLACEHOLDER, Place


def validated(cls: Any, config: Any) -> BaseModel:
    """A `config` as the model of its class. The model's validators know the class by the context.

    Raises:
        ValidationError: pydantic's.
    """
    model: type[BaseModel] = cls.config_model
    return model.model_validate(config, context={"class": cls})


def guessed(
    cls: Any, config: Any, unknown: Collection[Place], other: Place | None = None
) -> tuple[BaseModel | None, frozenset[Place]]:
    """Options as they may be, with some text, number or choice for what is not known.

    Args:
        cls: The component's class.
        config: With defaults in place of variables that have one.
        unknown: The places whose texts have variables without.
        other: A place that is to have another value than it has otherwise.

    Returns:
        The options, and the places that the author's model wants something else at, which are left
        out. None instead of options: something of that is required.
    """
    config = deepcopy(config)
    waiting = {place: _values(_at(config, place), place == other) for place in unknown}
    left_out: set[Place] = set()
    for place, values in waiting.items():
        _put(config, place, next(values))
    while True:
        try:
            return validated(cls, config), frozenset(left_out)
        except ValidationError as error:
            mistakes = error.errors(include_url=False)
        wrong = {place_of(cls.config_model, details, config): details for details in mistakes}
        for place, details in wrong.items():
            if place not in waiting or place in left_out:
                return None, frozenset({*left_out, place} & set(unknown))
            value = _choice(details, place == other) or next(waiting[place], None)
            if value is not None:
                _put(config, place, value)
            elif isinstance(parent := _at(config, place[:-1]), dict):
                left_out.add(place)
                del parent[place[-1]]
            else:
                return None, frozenset({*left_out, place})


def unknown_streams(cls: Any, config: Any, unknown: Collection[Place]) -> list[Place]:
    """The places that the streams of a class depend on, or may depend on."""
    first, found = guessed(cls, config, unknown)
    if first is None:
        return sorted(found or unknown, key=str)
    for place in set(unknown) - found:
        second, _ = guessed(cls, config, unknown, place)
        try:
            is_known = second and output_streams(cls, first) == output_streams(cls, second)
        except DeclarationError:
            is_known = False
        if not is_known:
            found |= {place}
    return sorted(found, key=str)


def _choice(details: Any, is_other: bool) -> str | None:
    """One of the texts that are allowed, if a mistake tells them."""
    if details["type"] not in ("literal_error", "enum"):
        return None
    choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
    return choices[-1 if is_other else 0] if choices else None


def _values(text: str, is_other: bool) -> Iterator[str]:
    """What a text may be where it is known: names, numbers and switches."""
    number = 2 if is_other else 1
    yield PLACEHOLDER.sub(lambda match: f"{match['name']}_{number}", text)
    yield PLACEHOLDER.sub(lambda match: f"{match['name'].lower().replace('_', '')}{number}", text)
    yield PLACEHOLDER.sub(str(number), text)
    yield PLACEHOLDER.sub("true" if is_other else "false", text)


def _at(config: Any, place: Place) -> Any:
    for part in place:
        config = config[part]
    return config


def _put(config: Any, place: Place, value: str) -> None:
    *parents, last = place
    _at(config, tuple(parents))[last] = value
