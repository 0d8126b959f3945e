"""Texts of data and of authors: which are none, and what a terminal may show of them."""

import json
import re
from unicodedata import category

_BREAKS = re.compile(r"\s*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")


def is_text(value: str) -> bool:
    """Whether a string can be written as UTF-8: it has no surrogates, halves of characters."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def visible(text: str) -> str:
    """The text in one line, without characters that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _BREAKS.sub(" ", text).strip()))


def visible_lines(text: str) -> str:
    """The same with the lines and tabs that it has. JSON stays JSON, and says the same."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" else _shown(c) for c in text)


def _shown(character: str) -> str:
    is_harmless = character.isprintable() or category(character) == "Zs"
    return character if is_harmless else json.dumps(character)[1:-1]
