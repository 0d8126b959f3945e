"""`${NAME}` in the texts and keys of a `config`: the value of an environment variable.

`${NAME:-text}` is the text if the variable is unset or empty, and `$${` is a literal `${`. Anything
else that begins with `${` is left as it is.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fulmen import secrets

PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_MEANT = re.compile(r"(?<!\$)\$\{(?![A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})[^}\s]*\}?")

Place = tuple[int | str, ...]
"""A place in a `config`: keys and numbers of entries."""
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Unset:
    """A variable that has no value.

    Attributes:
        place: The place in the `config` with its name.
        variable: Its name.
    """

    place: Place
    variable: str


@dataclass(frozen=True)
class EqualKeys:
    """Two keys of one mapping are the same text.

    Attributes:
        place: The place of the second key in the file.
    """

    place: Place


def resolved(value: Any, environ: Mapping[str, str]) -> tuple[Any, list[Unset | EqualKeys]]:
    """A `config` with the values of the environment, and what is wrong with these.

    Values that come from the environment are secrets from then on.
    """
    wrong: list[Unset | EqualKeys] = []

    def text(template: str, place: Place) -> str:
        found: dict[str, str] = {}

        def put(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "${"
            known = environ.get(name)
            if known is None or (default is not None and known in ("", default)):
                if default is None:
                    wrong.append(Unset(place, name))
                return match[0] if default is None else default
            found[name] = known
            return known

        made = PLACEHOLDER.sub(put, template)
        return secrets.note(template, made, found) if found else made

    return _mapped(value, text, text, lambda place: wrong.append(EqualKeys(place))), wrong


def stand_in(
    value: Any, values: Mapping[str, str] = _NONE
) -> tuple[Any, frozenset[Place], frozenset[str]]:
    """Resolve a `config` as far as possible without an environment.

    Args:
        value: The `config` in the file.
        values: Assumed values of some variables.

    Returns:
        The `config` with defaults in place of variables that have one; the places of texts with
        others, which are left as they are; and all these others.
    """
    is_open: set[Place] = set()
    variables: set[str] = set()

    def text(template: str, place: Place | None = None) -> str:
        def put(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "${"
            if default is not None or name in values:
                return values.get(name, default or "")
            variables.add(name)
            if place is not None:
                is_open.add(place)
            return match[0]

        return PLACEHOLDER.sub(put, template)

    known = _mapped(value, text, lambda template, _: text(template))
    return known, frozenset(is_open), frozenset(variables)


def texts_in(value: Any) -> Iterator[str]:
    """All texts and keys of a `config` that have no placeholder."""
    if isinstance(value, str) and "${" not in value:
        yield value
    elif isinstance(value, Mapping):
        for item in (*value, *value.values()):
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def mistaken(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Texts that look like placeholders and are none: their places, and what looks so."""
    if isinstance(value, str):
        yield from ((place, match[0]) for match in _MEANT.finditer(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from mistaken(key, (*place, key))
            yield from mistaken(item, (*place, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from mistaken(item, (*place, number))


def _mapped(
    value: Any,
    text: Callable[[str, Place], str],
    key: Callable[[str, Place], str],
    equal: Callable[[Place], object] = bool,
    place: Place = (),
) -> Any:
    """A copy with each text and each key replaced. Places have the replaced keys.

    Args:
        value: The value to copy.
        text: Replaces the text at a place.
        key: Replaces the key at a place.
        equal: Called with the place of a key that becomes equal to one before it.
        place: The place of the value.
    """
    if isinstance(value, str):
        return text(value, place) if "${" in value else value
    if isinstance(value, Mapping):
        made: dict[Any, Any] = {}
        for name, item in value.items():
            has_any = isinstance(name, str) and "${" in name
            new = key(name, (*place, name)) if has_any else name
            if new in made:
                equal((*place, name))
            made[new] = _mapped(item, text, key, equal, (*place, new))
        return made
    if isinstance(value, list | tuple):
        return [_mapped(one, text, key, equal, (*place, i)) for i, one in enumerate(value)]
    return value
