"""`${NAME}` in the strings of a `config`: what stands for the value of an environment variable.

`${NAME:-text}` is the text if the variable is unset or empty, and `$${` is a literal `${`. Anything
else that begins with `${` is left as it is.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fulmen import secrets

PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_MEANT = re.compile(r"(?<!\$)\$\{(?![A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\})[^}\s]*\}?")

Place = tuple[int | str, ...]
"""Where in a `config`: keys and numbers of entries."""


@dataclass(frozen=True)
class Unset:
    """A variable that has no value.

    Attributes:
        place: Where in the `config` it is named.
        variable: Its name.
    """

    place: Place
    variable: str


def resolved(value: Any, environ: Mapping[str, str]) -> tuple[Any, list[Unset]]:
    """A `config` with the values of the environment, and which of them there are not.

    Values that come from the environment are secrets from then on.
    """
    unset: list[Unset] = []

    def text(template: str, place: Place) -> str:
        found: dict[str, str] = {}

        def put(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if name is None:
                return "${"
            known = environ.get(name)
            if known is None or (default is not None and known in ("", default)):
                if default is None:
                    unset.append(Unset(place, name))
                return default or ""
            found[name] = known
            return known

        made = PLACEHOLDER.sub(put, template)
        return secrets.note(template, made, found) if found else made

    return _mapped(value, text), unset


def stand_in(value: Any) -> tuple[Any, frozenset[Place]]:
    """A `config` as far as it is known without an environment.

    Returns:
        It with defaults in place of variables that have one, and the places of texts with others,
        which are left as they are.
    """
    is_open: set[Place] = set()

    def text(template: str, place: Place) -> str:
        def put(match: re.Match[str]) -> str:
            if match["name"] is None:
                return "${"
            if match["default"] is None:
                is_open.add(place)
                return match[0]
            return match["default"]

        return PLACEHOLDER.sub(put, template)

    return _mapped(value, text), frozenset(is_open)


def mistaken(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Texts that look like placeholders and are none: their places, and what looks so."""
    if isinstance(value, str):
        yield from ((place, match[0]) for match in _MEANT.finditer(value))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from mistaken(item, (*place, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from mistaken(item, (*place, number))


def _mapped(value: Any, text: Callable[[str, Place], str], place: Place = ()) -> Any:
    """A copy with each text replaced. Keys are no texts."""
    if isinstance(value, str):
        return text(value, place) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: _mapped(item, text, (*place, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, text, (*place, number)) for number, item in enumerate(value)]
    return value
