"""DuckDB's dialect as sqlglot parses it, without any function that it knows by itself.

Its parser rewrites calls of functions that it knows: other names, other arguments. Here all of them
stay what they are, so that only the table of `functions` says what there is.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokens import TokenType

from fulmen.expressions.mistakes import ExpressionError, TooDeep

_KEPT = ("CAST", "TRY_CAST", "EXTRACT")


class _Parser(DuckDBParser):
    FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012 (as its base class has it)
    FUNCTION_PARSERS = {  # noqa: RUF012
        name: parser for name, parser in DuckDBParser.FUNCTION_PARSERS.items() if name in _KEPT
    }
    NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        "CASE": DuckDBParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    STATEMENT_PARSERS: dict[Any, Any] = {}  # noqa: RUF012
    COLUMN_OPERATORS = {  # noqa: RUF012
        **DuckDBParser.COLUMN_OPERATORS,
        TokenType.ARROW: lambda _, of, path: _call("json_extract", of, path),
        TokenType.DARROW: lambda _, of, path: _call("json_extract_string", of, path),
    }


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


_DUCKDB = DuckDB()


def parsed(text: str) -> exp.Expr:
    """Parse an expression.

    Raises:
        ExpressionError: It is none.
    """
    try:
        trees = _Parser(dialect=_DUCKDB).parse(_DUCKDB.tokenize(text), text)
    except SqlglotError as error:
        raise _mistake(error) from error
    except RecursionError as error:
        raise TooDeep("it is nested too deeply") from error
    if len(trees) > 1:
        raise ExpressionError("there is more than one expression", "Remove what is behind the ';'.")
    if not trees or trees[0] is None:
        raise ExpressionError("it is empty")
    tree = trees[0]
    if not isinstance(tree, exp.Expr):
        raise ExpressionError("it is no expression")
    has_dots = any(len(node.args) > 1 for node in tree.find_all(exp.Column))
    return tree.transform(_with_dots) if has_dots else tree


def _with_dots(node: exp.Expr) -> exp.Expr:
    """Read `a.b.c` as a part of the column `a`, where SQL has tables and schemas."""
    if not isinstance(node, exp.Column) or len(node.args) == 1:
        return node
    first, *rest = node.parts
    parts: exp.Expr = exp.Column(this=first)
    for one in rest:
        parts = exp.Dot(this=parts, expression=one)
    return parts


def _mistake(error: SqlglotError) -> ExpressionError:
    for one in getattr(error, "errors", None) or ():
        what = one["highlight"] or one["start_context"][-20:]
        column = one["col"] - len(one["highlight"] or "") + 1 if one["line"] == 1 else None
        return ExpressionError(f"it can't be read at {what!r}", column=column)
    first = str(error).split("\n", 1)[0]
    return ExpressionError(f"it can't be read: {first}")
