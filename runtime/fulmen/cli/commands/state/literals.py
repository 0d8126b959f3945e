"""Keys and values that people write on the command line. Pure."""

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

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
    """The key that a text stands for: a literal of Python if it is one, or the text itself.

    So are `datetime.date(2026, 1, 31)`, `Decimal('1.5')` and others as `state get` shows them.
    """
    try:
        key = _made(text)
        hash(key)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError, ArithmeticError):
        return text
    return key


_CLASSES: Mapping[str, type] = {
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "Decimal": Decimal,
    "UUID": UUID,
}


def _made(text: str) -> Any:
    name, _, rest = text.partition("(")
    if (cls := _CLASSES.get(name)) is None:
        return ast.literal_eval(text)
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not rest.endswith(")"):
        raise ValueError(text)
    named = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    return cls(*map(ast.literal_eval, call.args), **named)
