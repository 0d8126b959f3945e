"""What expressions call for parts of JSON that is a text, as DuckDB has them: `doc ->> 'user'`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from fulmen.expressions.library.arithmetic import Failed
from fulmen.expressions.library.parts import Steps

_STEP = re.compile(r'\.(?:"([^"]+)"|([^."\[\]*]+))|\[(-?\d{1,9})\]')
_LONG = re.compile(r"\d{19}")
"""Perhaps an integer of more than 64 bits, of which orjson makes a float."""
_EXPONENT = re.compile(r"\de[+-]\d")
_LACKING = object()
_CURE = "Write a name, or a path such as '$.user.tags[0]'"


def _steps_of(path: str | int) -> Steps:
    """The way that is named: a member, a place, or a path that begins with `$`.

    Raises:
        Failed: It is no such path.
    """
    if isinstance(path, int):
        return (_from_1(path),)
    if path and not path.startswith(("$", "/")):
        return (path,)
    steps: list[int | str] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or not path.startswith("$"):
            raise Failed(f"{path!r} is no path of JSON. {_CURE}")
        quoted, name, place = found.groups()
        steps.append(_from_1(int(place)) if place else quoted or name)
        at = found.end()
    return tuple(steps)


def _from_1(place: int) -> int:
    """A place in a list: JSON counts from 0, SQL's lists from 1, and both from -1 at the end."""
    return place + 1 if place >= 0 else place


def text_at(path: str | int) -> Callable[[str], str | None]:
    """What takes a part out of JSON, as `->>` does: a text without quotes; JSON's null is NULL."""
    steps = _steps_of(path)

    def of(text: str) -> str | None:
        part = _part(text, steps, None)
        return part if part is None or isinstance(part, str) else _written(part)

    return of


def json_at(path: str | int) -> Callable[[str], str | None]:
    """What takes a part out of JSON, as `->` does: it is JSON again."""
    steps = _steps_of(path)

    def of(text: str) -> str | None:
        part = _part(text, steps, _LACKING)
        return None if part is _LACKING else _written(part)

    return of


def _part(text: str, steps: Steps, lacks: Any) -> Any:
    """A part of JSON; of what has no such member or place: `lacks`.

    Raises:
        Failed: It is no JSON.
    """
    part = _read(text)
    for step in steps:
        if isinstance(step, str):
            if not isinstance(part, dict) or step not in part:
                return lacks
            part = part[step]
            continue
        at = step - 1 if step > 0 else step
        if not isinstance(part, list) or not -len(part) <= at < len(part):
            return lacks
        part = part[at]
    return part


def _read(text: str) -> Any:
    import orjson  # here, as the operator reads expressions, and has none of it

    try:
        if _LONG.search(text) is None:
            return orjson.loads(text)
        return json.loads(text, parse_constant=_none)
    except (ValueError, RecursionError):
        raise Failed(f"{text[:60]!r} is no JSON") from None


def _none(constant: str) -> NoReturn:
    raise ValueError(constant)


def _written(part: Any) -> str:
    text = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
    if _EXPONENT.search(text) is None:
        return text
    if isinstance(part, dict):
        return f"{{{','.join(f'{_written(key)}:{_written(one)}' for key, one in part.items())}}}"
    if isinstance(part, list):
        return f"[{','.join(map(_written, part))}]"
    return _number(part) if isinstance(part, float) else text


def _number(value: float) -> str:
    """As yyjson writes it, DuckDB's library: digits up to 21 of them, then an exponent."""
    text = repr(value)
    if 1 <= abs(value) < 1e21:
        return f"{Decimal(text):f}.0"
    digits, _, exponent = text.partition("e")
    return f"{digits}e{int(exponent)}"
