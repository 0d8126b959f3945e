"""Keys of state as texts that stand for them alone. Pure."""

import ast
import sys
from typing import Any

from fulmen.errors import repr_of


def shown_key(key: Any) -> str:
    """A key as text: one that would be read as another key, or that nobody sees, has quotes.

    `fulmen state set` and `delete` take it as it is shown.
    """
    if not isinstance(key, str):
        return repr_of(key, sys.maxsize)
    is_plain = key.isprintable() and key and key == key.strip()
    return key if is_plain and not _is_literal(key) else repr(key)


def _is_literal(text: str) -> bool:
    if text.isidentifier():  # as most are
        return text in ("None", "True", "False")
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False
    return True
