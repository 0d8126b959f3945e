"""Dead letters as text, of the JSON that a server or a checkpoint gives. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fulmen.cli.bad_input import BadInput
from fulmen.cli.display.formats import several
from fulmen.engine.protocol.figures.failure_reasons import kind_of

Json = Mapping[str, Any]
MOST_OF_A_KIND = 5
"""So many letters of each kind are listed, if not all are asked for."""
_LONGEST_VALUES = 100
_SPAN = re.compile(r"(\d+)\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True)
class LetterFilter:
    """Says which letters are meant: those for which all holds that is given.

    Attributes:
        ids: Only these; empty: any.
        component: Only those that began, or failed, in this component.
        reason: Only those whose reason has this text in it.
        since: Only those that became letters at this second or later.
        until: Only those that became letters before this second.
    """

    ids: Sequence[str] = ()
    component: str = ""
    reason: str = ""
    since: float = 0.0
    until: float = float("inf")

    def of(self, letters: Iterable[Json]) -> list[Json]:
        """Those that are meant. BadInput if one of the ids is not there."""
        found = [letter for letter in letters if self._has(letter)]
        missing = sorted({*self.ids} - {letter["id"] for letter in found})
        if missing:
            raise BadInput(
                f"there is no dead letter {missing[0]!r}. It was sent again, removed or forgotten,"
                " or other options leave it out: `fulmen dead-letters list` shows those that are"
                " there."
            )
        return found

    def _has(self, letter: Json) -> bool:
        return (
            (not self.ids or letter["id"] in self.ids)
            and (
                self.component in ("", letter["component"])
                or letter["failed_in"].startswith(f"{self.component!r},")
            )
            and self.reason in letter["reason"]
            and self.since <= letter["time"] < self.until
        )


def moment(text: str, now: float) -> float:
    """The second that is meant by a date, a time, or an age such as 90m, 2h or 7d.

    Raises:
        ValueError: None is.
    """
    if found := _SPAN.fullmatch(text):
        return now - int(found[1]) * _SECONDS[found[2]]
    return datetime.fromisoformat(text).timestamp()


def list_lines(letters: Sequence[Json], forgotten: Mapping[str, int], most: int) -> Iterator[str]:
    """Lines for each kind of reason, the newest first, and below it for each of its letters."""
    groups: dict[tuple[str, str, str], list[Json]] = {}
    for letter in letters:
        key = letter["component"], letter["stream"], kind_of(letter["reason"])
        groups.setdefault(key, []).append(letter)
    for (component, stream, kind), some in groups.items():
        of = component if stream == "default" else f"{component}, stream {stream!r}"
        yield f"{several(len(some), 'dead letter')} of {of}: {kind}"
        for letter in some[:most]:
            yield f"  {letter['id']}  {_time(letter)}  {_short(letter)}{_state(letter)}"
        if len(some) > most:
            yield f"  and {len(some) - most:,} more: --all lists them"
    for component, count in forgotten.items():
        yield (
            f"{several(count, 'older one')} of {component} had to make room: see"
            " spec.deadLetters.keep and maxBytes"
        )


def show_lines(letter: Json) -> Iterator[str]:
    """All that is known of a letter."""
    yield f"dead letter {letter['id']}{_state(letter)}"
    component, task, stream = letter["component"], letter["task"], letter["stream"]
    yield f"  began at    {component!r}, task {task}, stream {stream!r}"
    yield f"  message id  {_text(letter['message_id'])}"
    yield f"  time        {_time(letter)}"
    yield f"  failed      {_failures(letter)}, {letter['kind']}"
    if letter["failed_in"]:
        yield f"  failed in   {letter['failed_in']}"
    yield f"  reason      {letter['reason']}"
    yield from _values(letter)
    if letter["why_not"]:
        yield f"  It can't be sent again: {letter['why_not']}."
    if letter["traceback"]:
        yield ""
        yield from (f"  {line}" for line in letter["traceback"].splitlines())


def _values(letter: Json) -> Iterator[str]:
    if letter["values"] is None:
        yield "  values      not shown: the topology has no `tap: {allowed: true}`, or masks some"
        return
    names = letter["fields"] or map(str, range(len(letter["values"])))
    for place, (name, value) in enumerate(zip(names, letter["values"], strict=True)):
        yield f"  {'' if place else 'values':10}  {name}: {_text(value)}"


def _short(letter: Json) -> str:
    values = letter["values"]
    text = "" if values is None else ", ".join(map(_text, values))
    text = text if len(text) <= _LONGEST_VALUES else f"{text[:_LONGEST_VALUES]}…"
    of = "" if letter["message_id"] is None else f"message {_text(letter['message_id'])}: "
    return f"{of}{text}"


def _state(letter: Json) -> str:
    told = []
    if letter["state"] == "wanted":
        told.append("to be sent again")
    elif letter["state"] != "kept":
        told.append(letter["state"])
    elif not letter["can_be_sent"]:
        told.append("can't be sent again")
    if letter["replays"]:
        told.append(f"sent again {several(letter['replays'], 'time')}")
    return f"  ({', '.join(told)})" if told else ""


def _failures(letter: Json) -> str:
    return several(letter["failures"], "time")


def _time(letter: Json) -> str:
    return f"{datetime.fromtimestamp(letter['time']).astimezone():%Y-%m-%d %H:%M:%S}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
