"""What is wrong with an expression."""

from __future__ import annotations

from collections.abc import Sequence


class ExpressionError(Exception):
    """An expression can't be used.

    Attributes:
        message: What is wrong.
        cure: What would be right, as a sentence; empty: that is not known.
        column: The place in the text, from 1; None: all of it.
        wrong: A name that does not exist; empty: that is not what is wrong.
        among: The names that there are.
    """

    def __init__(
        self,
        message: str,
        cure: str = "",
        column: int | None = None,
        *,
        wrong: str = "",
        among: Sequence[str] = (),
    ) -> None:
        super().__init__(message, cure, column)
        self.message, self.cure, self.column = message, cure, column
        self.wrong, self.among = wrong, among

    def __str__(self) -> str:
        return f"{self.message} (column {self.column})" if self.column else self.message


class TooDeep(ExpressionError):
    """An expression is nested so deeply that nothing else is said of it."""
