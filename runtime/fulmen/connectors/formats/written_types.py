"""Types of dates and times whose texts have a form of their own: `timestamp(%d/%m/%Y %H:%M)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

_WRITTEN = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_SPECIFIER = re.compile(r"%(.?)", re.DOTALL)
_LETTERS = "YymbBdjaAHIpMSfz%"
_OF_TIME: Mapping[str, Callable[[datetime], Any]] = {
    "timestamp": lambda at: at,
    "date32": datetime.date,
    "time": datetime.timetz,
}
"""What a type makes of the time that is read."""


class WrittenType(str):
    """The name of a type, such as `timestamp`. Its texts are in a form of their own.

    Attributes:
        form: As `datetime.strptime` has it.
    """

    form: str

    def __new__(cls, kind: str, form: str) -> WrittenType:
        """Keep the form beside the name."""
        made = super().__new__(cls, kind)
        made.form = form
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.form

    @property
    def read(self) -> Callable[[str], datetime | date | time]:
        """What makes a value of a text. It raises ValueError for one that has another form."""
        form, made = self.form, _OF_TIME[self]

        def read(text: str) -> datetime | date | time:
            # A time that its text gives no offset has none.
            return made(datetime.strptime(text.strip(), form))  # type: ignore[no-any-return]  # noqa: DTZ007

        return read


def written_type(value: Any) -> Any:
    """A type with a form, of what a topology's file has; anything else as it is.

    Raises:
        ValueError: There is no such form.
    """
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    kind, form = found.groups()
    if kind not in _OF_TIME:
        raise ValueError(f"{kind!r} has no form, only {', '.join(_OF_TIME)} have one")
    if problem := _problem(kind, form):
        raise ValueError(f"the form {form!r} {problem}")
    return WrittenType(kind, form)


def _problem(kind: str, form: str) -> str:
    letters = _SPECIFIER.findall(form)
    if unknown := [letter for letter in letters if not letter or letter not in _LETTERS]:
        there = " ".join(f"%{letter}" for letter in _LETTERS)
        return f"has {'%' + unknown[0]!r}. There are {there}"
    has_day = "j" in letters or ("d" in letters and not {*"mbB"}.isdisjoint(letters))
    if kind != "time" and not (has_day and not {*"Yy"}.isdisjoint(letters)):
        return "names no day: it needs a year, as %Y, with %m and %d, or with %j"
    if kind == "time" and {*"HI"}.isdisjoint(letters):
        return "has no hour, %H or %I"
    if ("I" in letters) != ("p" in letters):
        return "has only one of %I and %p: write both, or %H"
    return ""
