"""Regular expressions of RE2, as DuckDB has them: none takes longer than the text is long."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fulmen.expressions.library.arithmetic import Failed

LONGEST = 1000
"""Characters that a pattern may have."""
_OPTIONS = {"i": ("case_sensitive", False), "c": ("case_sensitive", True), "s": ("dot_nl", True),
            "l": ("literal", True)}  # fmt: skip
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def matches(pattern: str, options: str = "") -> Callable[[str], bool]:
    """What says whether a pattern is somewhere in a text."""
    search = compiled(pattern, options).search
    return lambda value: search(value) is not None


def full_match(pattern: str, options: str = "") -> Callable[[str], bool]:
    """What says whether a pattern is the whole of a text."""
    full = compiled(pattern, options).fullmatch
    return lambda value: full(value) is not None


def extract(pattern: str, group: int = 0, options: str = "") -> Callable[[str], str]:
    """What gives the part of a text that a pattern, or a group of it, is; empty: there is none."""
    made = compiled(pattern, options)
    if not 0 <= group <= 9:
        raise Failed(f"a group is a number from 0 to 9, and not {group}")
    search = made.search
    if group > made.groups:
        return lambda _: ""

    def of(value: str) -> str:
        found = search(value)
        return "" if found is None else found.group(group) or ""

    return of


def extract_all(pattern: str, group: int = 0) -> Callable[[str], list[str]]:
    """What gives all parts of a text that a pattern, or a group of it, is."""
    made = compiled(pattern)
    if not 0 <= group <= made.groups:
        raise Failed(f"the pattern {pattern!r} has {made.groups} groups, and none {group}")
    return lambda value: [found.group(group) for found in made.finditer(value)]


def replaced(pattern: str, by: str, options: str = "") -> Callable[[str], str]:
    r"""What replaces the first match in a text; with the option `g`, all. `\1` is a group."""
    made = compiled(pattern, options.replace("g", ""))
    parts = _template(by, made.groups)
    count = 0 if "g" in options else 1

    def new(found: Any) -> str:
        return "".join(one if isinstance(one, str) else found.group(one) or "" for one in parts)

    return lambda value: str(made.sub(new, value, count))


def _template(text: str, groups: int) -> list[str | int]:
    """The parts of a replacement: texts, and numbers of groups."""
    parts: list[str | int] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        if found[1] == "\\":
            parts.append("\\")
        elif found[1].isascii() and found[1].isdigit():
            if int(found[1]) > groups:
                raise Failed(f"{text!r} has \\{found[1]}, and the pattern {groups} groups")
            parts.append(int(found[1]))
        else:
            raise Failed(f"in the replacement {text!r} a digit or \\ follows \\")
    return [*parts, text[end:]]


def compiled(pattern: str, options: str = "") -> Any:
    """A pattern as `re2` has it.

    Raises:
        Failed: It can't be read, is too long, or has no such option.
    """
    # here, as few topologies have a pattern
    import re2

    if len(pattern) > LONGEST:
        raise Failed(f"a pattern has {len(pattern)} characters, and {LONGEST} are the most")
    said = re2.Options()
    said.log_errors = False
    for one in options:
        if one not in _OPTIONS:
            raise Failed(f"{one!r} is no option of a pattern. There are {', '.join(_OPTIONS)}")
        setattr(said, *_OPTIONS[one])
    try:
        return re2.compile(pattern, said)
    except re2.error as error:
        why = error.args[0] if error.args else error
        why = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise Failed(f"the pattern {pattern!r} can't be read: {why}") from None
