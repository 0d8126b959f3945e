"""What compiled expressions call for text. Nothing here takes longer than its texts are long."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def upper(text: str) -> str:
    """Letters in upper case, one for each: ß stays one letter."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def lower(text: str) -> str:
    """Letters in lower case, one for each."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def _upper(letter: str) -> str:
    if letter == "ß":
        return "ẞ"
    changed = letter.upper()
    return changed if len(changed) == 1 else letter


def _lower(letter: str) -> str:
    if letter == "İ":
        return "i"
    changed = letter.lower()
    return changed if len(changed) == 1 else letter


def split(text: str, by: str) -> list[str]:
    """The parts of a text that another one divides; by an empty one: its characters."""
    return text.split(by) if by else list(text)


def substring(text: str, start: int, length: int | None = None) -> str:
    """A part of a text from the place `start`, from 1; negative: from its end.

    A negative length is of what is in front of `start`.
    """
    size = len(text)
    first = start - 1 if start > 0 else (size + start if start < 0 else -1)
    if length is None:
        return text[max(first, 0) :]
    if start == 0:
        first = -1
    last = first + length
    if length < 0:
        first, last = last, first
    return text[max(first, 0) : max(last, 0)]


def left(text: str, count: int) -> str:
    """The first letters; negative: all but the last."""
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def right(text: str, count: int) -> str:
    """The last letters; negative: all but the first."""
    if count >= 0:
        return text[max(len(text) - count, 0) :]
    return text[-count:]


def replace(text: str, old: str, new: str) -> str:
    """Each `old` as `new`."""
    return text.replace(old, new) if old else text


def split_part(text: str, separator: str, part: int) -> str:
    """A part of a divided text, from 1; negative: from the last. Empty: there is none."""
    parts = split(text, separator)
    if not part or abs(part) > len(parts):
        return ""
    return parts[part - 1 if part > 0 else part]


def trim(text: str, letters: str = " ") -> str:
    """Without these letters at both ends."""
    return text.strip(letters) if letters else text


def ltrim(text: str, letters: str = " ") -> str:
    """Without these letters at its beginning."""
    return text.lstrip(letters) if letters else text


def rtrim(text: str, letters: str = " ") -> str:
    """Without these letters at its end."""
    return text.rstrip(letters) if letters else text


def place(text: str, part: str) -> int:
    """Where a part begins, from 1; 0: it is not there."""
    return text.find(part) + 1


def joined(separator: str, texts: Sequence[str | None]) -> str:
    """Texts with a separator between them, without those that are NULL."""
    return separator.join([text for text in texts if text is not None])


def like(pattern: str, escape: str = "") -> Callable[[str], bool]:
    """What says whether a text is like a pattern, with `%` for any letters and `_` for one.

    Raises:
        ValueError: The escape is no single letter, or is in front of nothing.
    """
    segments = _segments(pattern, escape)
    return lambda text: _matches(text, segments)


def like_source(pattern: str, escape: str = "") -> Callable[[str], str] | None:
    """The same as Python source, which is given that of the text; None: it takes a call."""
    segments = _segments(pattern, escape)
    first, last = segments[0][0], segments[-1][0]
    if any("_" in wild for _, wild in segments) or len(segments) > 3:
        return None
    if len(segments) == 1:
        return lambda text: f"({text} == {first!r})"
    if len(segments) == 2 and not last:
        return lambda text: f"{text}.startswith({first!r})"
    if len(segments) == 2 and not first:
        return lambda text: f"{text}.endswith({last!r})"
    if len(segments) == 3 and not first and not last:
        return lambda text: f"({segments[1][0]!r} in {text})"
    return None


def is_like(text: str, pattern: str, escape: str = "") -> bool:
    """Whether a text is like a pattern that is another in each row."""
    return _matches(text, _segments(pattern, escape))


_Segment = tuple[str, str]
"""Letters, and for each "_" if any may be there, else " "."""


def _segments(pattern: str, escape: str) -> list[_Segment]:
    """The parts of a pattern between each `%`."""
    if len(escape) > 1:
        raise ValueError("an escape is one letter")
    segments: list[tuple[list[str], list[str]]] = [([], [])]
    letters = iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            following = next(letters, None)
            if following is None:
                raise ValueError("the pattern ends in its escape")
            segments[-1][0].append(following)
            segments[-1][1].append(" ")
        elif letter == "%":
            segments.append(([], []))
        else:
            segments[-1][0].append(letter)
            segments[-1][1].append("_" if letter == "_" else " ")
    return [("".join(text), "".join(wild)) for text, wild in segments]


def _matches(text: str, segments: Sequence[_Segment]) -> bool:
    first, last = segments[0], segments[-1]
    if not _is_at(text, 0, first):
        return False
    if len(segments) == 1:
        return len(text) == len(first[0])
    at, end = len(first[0]), len(text) - len(last[0])
    for segment in segments[1:-1]:
        at = _find(text, at, segment)
        if at < 0:
            return False
        at += len(segment[0])
    return at <= end and _is_at(text, end, last)


def _find(text: str, start: int, segment: _Segment) -> int:
    """Where a segment is next; -1: nowhere."""
    letters, wild = segment
    if "_" not in wild:
        return text.find(letters, start)
    for at in range(start, len(text) - len(letters) + 1):
        if _is_at(text, at, segment):
            return at
    return -1


def _is_at(text: str, at: int, segment: _Segment) -> bool:
    letters, wild = segment
    if "_" not in wild:
        return text.startswith(letters, at)
    part = text[at : at + len(letters)]
    return len(part) == len(letters) and all(
        any_letter == "_" or one == wanted
        for one, wanted, any_letter in zip(part, letters, wild, strict=True)
    )
