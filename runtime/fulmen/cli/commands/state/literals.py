"""Keys and values that people write on the command line. Pure."""

import ast
import json
from contextlib import suppress
from typing import Any

from fulmen.cli.bad_input import BadInput
from fulmen.engine.state.values.json_form import from_json


def value_of(text: str, where: str) -> Any:
    """The value that a text stands for: JSON, or a literal of Python.

    Raises:
        BadInput: It is neither.
    """
    with suppress(json.JSONDecodeError, RecursionError):
        try:
            return from_json(json.loads(text))
        except ValueError as error:
            if not isinstance(error, json.JSONDecodeError):
                raise BadInput(f"{where}: {error}") from error
            raise
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise BadInput(
            f"{where}: {text[:80]!r} is neither JSON nor a literal of Python. Write a text with"
            " quotes within quotes: '\"text\"'."
        ) from None


def key_of(text: str) -> Any:
    """The key that a text stands for: a literal of Python if it is one, or the text itself."""
    try:
        key = ast.literal_eval(text)
        hash(key)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text
    return key
