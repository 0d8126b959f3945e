"""Regular expressions of RE2, as DuckDB has them: none takes longer than the text is long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from fulmen.expressions.library.arithmetic import Failed

LONGEST = 1000
"""Characters that a pattern may have."""
_OPTIONS = {"i": ("case_sensitive", False), "c": ("case_sensitive", True), "s": ("dot_nl", True),
            "l": ("literal", True)}  # fmt: skip
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def matches(pattern: str, options: str = "") -> Callable[[str], bool]:
    """What says whether a pattern is somewhere in a text."""
    of = Pattern(pattern, options).of

    def is_in(value: str) -> bool:
        made, given = of(value)
        return made.search(given) is not None

    return is_in


def full_match(pattern: str, options: str = "") -> Callable[[str], bool]:
    """What says whether a pattern is the whole of a text."""
    of = Pattern(pattern, options).of

    def is_whole(value: str) -> bool:
        made, given = of(value)
        return made.fullmatch(given) is not None

    return is_whole


def extract(pattern: str, group: int = 0, options: str = "") -> Callable[[str], str]:
    """What gives the part of a text that a pattern, or a group of it, is; empty: there is none."""
    made = Pattern(pattern, options)
    if not 0 <= group <= 9:
        raise Failed(f"a group is a number from 0 to 9, and not {group}")
    of = made.of
    if group > made.groups:
        return lambda _: ""

    def part(value: str) -> str:
        fitting, given = of(value)
        found = fitting.search(given)
        return "" if found is None else _text(found.group(group) or "")

    return part


def extract_all(pattern: str, group: int = 0) -> Callable[[str], list[str]]:
    """What gives all parts of a text that a pattern, or a group of it, is."""
    made = Pattern(pattern)
    if not 0 <= group <= made.groups:
        raise Failed(f"the pattern {pattern!r} has {made.groups} groups, and none {group}")
    of = made.of

    def parts(value: str) -> list[str]:
        fitting, given = of(value)
        return [_text(found.group(group)) for found in _once(fitting.finditer(given))]

    return parts


def replaced(pattern: str, by: str, options: str = "") -> Callable[[str], str]:
    r"""What replaces the first match in a text; with the option `g`, all. `\1` is a group."""
    made = Pattern(pattern, options.replace("g", ""))
    parts = _template(by, made.groups)
    has_all = "g" in options

    def new(found: Any) -> Any:
        groups = [one if isinstance(one, str) else found.group(one) or "" for one in parts]
        text = "".join(map(_text, groups))
        return text if isinstance(found.string, str) else text.encode()

    def of(value: str) -> str:
        fitting, given = made.of(value)
        pieces: list[Any] = []
        end = 0
        for found in _once(fitting.finditer(given)):
            start, last = found.span()
            if pieces and start == last == end:  # nothing, right behind another match
                continue
            pieces += given[end:start], new(found)
            end = last
            if not has_all:
                break
        return str(_text(given[:0].join([*pieces, given[end:]])))

    return of


def _once(matches: Iterable[Any]) -> Iterator[Any]:
    """Each match once: `re2` finds that of the end twice."""
    last = None
    for found in matches:
        if found.span() != last:
            last = found.span()
            yield found


def _text(found: Any) -> Any:
    return found.decode() if type(found) is bytes else found


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


class Pattern:
    """A pattern as `re2` has it: of texts, and of bytes.

    For texts `re2` counts letters, which takes three times as long. What is ASCII needs none: there
    bytes are letters.

    Attributes:
        groups: How many it has.
    """

    def __init__(self, pattern: str, options: str = "") -> None:
        """Read it.

        Raises:
            Failed: It can't be read, is too long, or has no such option.
        """
        self._of_texts = compiled(pattern, options)
        self._of_bytes = None
        self.groups: int = self._of_texts.groups
        if pattern.isascii():
            with suppress(Failed):  # it says \x{20AC}
                self._of_bytes = compiled(pattern.encode(), options)

    def of(self, value: str) -> tuple[Any, Any]:
        """What is to be called for a text, and with what."""
        if self._of_bytes is not None and value.isascii():
            return self._of_bytes, value.encode()
        return self._of_texts, value


def compiled(pattern: str | bytes, options: str = "") -> Any:
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
    if isinstance(pattern, bytes):
        said.encoding = re2.Options.Encoding.LATIN1
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
