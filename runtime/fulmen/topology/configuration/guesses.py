"""Guesses options that depend on variables which are only known where the component runs."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fulmen.api.declarer import output_streams
from fulmen.errors import DeclarationError
from fulmen.topology.configuration.option_problems import place_of
from fulmen.topology.configuration.placeholders import (
    PLACEHOLDER,
    Place,
    stand_in,
    texts_in,
)
from fulmen.topology.problems import meant

T = TypeVar("T")


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
    """Guess options: a text, number or choice replaces each unknown one.

    Args:
        cls: The component's class.
        config: With defaults in place of variables that have one.
        unknown: The places of texts with other variables.
        other: A place that gets another value than otherwise.

    Returns:
        The options, and the places that are left out, as the author's model refuses their values.
        None instead of options: a required one is left out.
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


def mended(cls: Any, config: Any, unknown: Collection[Place]) -> BaseModel | None:
    """Options with guesses in place of wrong ones; None: streams may depend on what is wrong.

    Args:
        cls: The class.
        config: With defaults in place of variables that have one.
        unknown: The places of texts with other variables.
    """
    config, places = deepcopy(config), {*unknown}
    while True:
        try:
            validated(cls, config)
        except ValidationError as error:
            mistakes = error.errors(include_url=False)
        else:
            break
        wrong = {place_of(cls.config_model, one, config): one for one in mistakes}
        todo = [one for one in wrong.items() if one[0] not in places]
        if not (todo and all(_mend(config, *one, places) for one in todo)):
            break
    options, left_out = guessed(cls, config, places)
    if options is None or left_out or unknown_streams(cls, config, places):
        return None
    return options


def _mend(config: Any, place: Place, error: Any, places: set[Place]) -> bool:
    """Leave out an option that does not exist, or have a wrong one guessed, if that can be."""
    parent = _at(config, place[:-1])
    if not place or not isinstance(parent, dict):
        return False
    last = place[-1]
    if error["type"] == "extra_forbidden":
        del parent[last]
        return True
    if error["type"] == "union_tag_invalid":  # such as the type of a window: which one was meant?
        tags = re.findall(r"'([^']*)'", error["ctx"]["expected_tags"])
        parent[last] = meant(parent[last], tags)
        return parent[last] is not None
    if isinstance(parent.get(last), dict | list):
        return False
    parent[last] = "${WRONG}"
    places.add(place)
    return True


class Guesses:
    """The possible options of a component, for some values of its variables.

    Attributes:
        cls: Its class.
        config: The `config` in the file.
        variables: Those that have no default.
    """

    def __init__(self, cls: Any, config: Any, variables: Collection[str]) -> None:
        self.variables = sorted(variables)
        self.cls, self.config = cls, config

    def options(self, values: Mapping[str, str]) -> BaseModel:
        """The options, with guesses for all other variables.

        Raises:
            ValidationError: pydantic's, whatever is guessed.
        """
        known, unknown, _ = stand_in(self.config, values)
        try:
            return validated(self.cls, known)
        except ValidationError:
            if (found := guessed(self.cls, known, unknown)[0]) is None:
                raise
            return found

    def values(self, names: Iterable[str] = ()) -> Iterator[dict[str, str]]:
        """Values that variables may have: texts of the `config`, other names, and any two.

        Each variable is tried by itself, and all of them together.
        """
        tried = dict.fromkeys([*names, *texts_in(self.config), "value_1", "value_2"])
        for text in tried if self.variables else ():
            yield dict.fromkeys(self.variables, text)
            if len(self.variables) > 1:
                yield from ({variable: text} for variable in self.variables)

    def keys_of_streams(self, known: Any, place: Place = ()) -> Iterator[Place]:
        """The keys with variables that the streams depend on, or may depend on."""
        is_list = isinstance(known, list)
        items = dict(enumerate(known)) if is_list else known if isinstance(known, dict) else {}
        for key, item in items.items():
            names = {match["name"] for match in PLACEHOLDER.finditer(str(key))} & {*self.variables}
            try:
                streams = [
                    output_streams(self.cls, self.options(dict.fromkeys(names, text)))
                    for text in ("value_1", "value_2")
                    if names
                ]
            except (ValidationError, DeclarationError):
                yield (*place, key)
                continue
            if names and streams[0] != streams[1]:
                yield (*place, key)
            yield from self.keys_of_streams(item, (*place, key))

    def lasting(
        self, told: Callable[[Any], list[T]], options: Any, names: Iterable[str]
    ) -> list[T]:
        """Mistakes in the options that remain whatever the values of variables are.

        Args:
            told: Finds mistakes in options.
            options: The first guess, or the known options.
            names: Possible values of a variable, besides texts of the `config`: names of fields.
        """
        lasting: list[T] | None = None
        for values in self.values(names):
            with suppress(ValidationError):
                now = told(self.options(values))
                lasting = now if lasting is None else [one for one in lasting if one in now]
            if lasting == []:
                return []
        return told(options) if lasting is None else lasting


def _choice(details: Any, is_other: bool) -> str | None:
    """One of the allowed texts, if a mistake lists them."""
    if details["type"] not in ("literal_error", "enum"):
        return None
    choices = re.findall(r"'([^']*)'", details["ctx"]["expected"])
    return choices[-1 if is_other else 0] if choices else None


def _values(text: str, is_other: bool) -> Iterator[str]:
    """Possible values of a text with variables: names, numbers and switches."""
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
