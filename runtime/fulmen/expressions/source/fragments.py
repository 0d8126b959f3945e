"""Parts of the Python source that an expression becomes, and how NULL goes through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from fulmen.expressions.library.casts import CASTS
from fulmen.expressions.library.parts import NoPart
from fulmen.expressions.sql_types import OF_VALUES, SqlType

if TYPE_CHECKING:
    from sqlglot import exp

NOT_CONSTANT: Final = object()


@dataclass(frozen=True)
class Fragment:
    """A part of an expression as Python source.

    Attributes:
        source: It can stand anywhere as an operand.
        type: The type of its values that are not NULL.
        nullable: Whether it may be NULL, as None.
        is_name: Whether it may stand in the source twice, as that costs nothing.
        constant: Its value, if it is always the same.
        bits: It is a whole number of so many bits at most, without its sign.
        element: The type of the values of a list, as far as it is known before there is one.
    """

    source: str
    type: SqlType
    nullable: bool = True
    is_name: bool = False
    constant: Any = NOT_CONSTANT
    bits: int = 64
    element: SqlType = SqlType.UNKNOWN

    @property
    def is_constant(self) -> bool:
        """Whether its value is always the same."""
        return self.constant is not NOT_CONSTANT


NULL: Final = Fragment("None", SqlType.NULL, is_name=True, constant=None)


class Scope:
    """The names of a piece of source: what it calls, its constants, and its temporary values.

    Attributes:
        names: What the source finds by its name.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._temporary = 0

    def temporary(self) -> str:
        """A name for a value that is needed twice."""
        self._temporary += 1
        return f"t{self._temporary}"

    def bind(self, value: Any) -> str:
        """A name for something that is called, or a constant."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def constant(self, value: Any, of: SqlType) -> Fragment:
        """A constant."""
        if value is None:
            return NULL
        plain = type(value) in (int, str, bool) or (
            type(value) is float and value - value == 0  # no nan, no inf
        )
        source = repr(value) if plain else self.bind(value)
        if source.startswith("-"):
            source = f"({source})"
        bits = value.bit_length() if type(value) is int else 64
        return Fragment(source, of, nullable=False, is_name=True, constant=value, bits=bits)

    def strict(
        self,
        operands: Sequence[Fragment],
        of: SqlType,
        make: Callable[..., str],
        *,
        nullable: bool = False,
    ) -> Fragment:
        """A fragment that is NULL where one of its operands is.

        Args:
            operands: Evaluated in this order.
            of: The type of the result.
            make: The source of the result, given those of the operands.
            nullable: Whether it may be NULL besides.
        """
        if any(one.constant is None for one in operands):
            return replace(NULL, type=of)
        sources, tests = [], []
        for one in operands:
            name = one.source
            if one.nullable:
                if not one.is_name:
                    name = self.temporary()
                tested = name if one.is_name else f"({name} := {one.source})"
                tests.append(f"{tested} is None")
            sources.append(name)
        source = make(*sources)
        if tests:
            source = f"(None if {' or '.join(tests)} else {source})"
        return Fragment(source, of, nullable=nullable or bool(tests))

    def once(self, part: Any, make: Callable[[], Fragment]) -> Fragment:  # noqa: ARG002
        """A part of an expression, which need be calculated only once for a row.

        Args:
            part: What it is of the tree.
            make: Makes it.
        """
        return make()

    def most_parts(self, text: exp.Expr, by: str, least: int) -> int:  # noqa: ARG002
        """How many parts are asked for of a text that is divided: not fewer than `least`."""
        return least

    def perhaps(self) -> AbstractContextManager[None]:
        """For parts that some rows do not need."""
        return nullcontext()

    def apart(self) -> AbstractContextManager[None]:
        """For parts in a function of their own."""
        return nullcontext()

    def named(self, one: Fragment) -> tuple[str, Fragment]:
        """A fragment by a name, and the source that is true and gives it that name first."""
        if one.is_name:
            return "", one
        name = self.temporary()
        return f"({name} := {one.source}) is {name} and ", replace(one, source=name, is_name=True)

    def converted(self, one: Fragment, to: SqlType) -> Fragment:
        """A fragment as a value of a type that has all values of its own, or of text."""
        if one.type is to or SqlType.UNKNOWN in (one.type, to):
            return one
        if one.constant is None:
            return replace(one, type=to)
        cast = CASTS[one.type, to]
        if one.is_constant:
            return self.constant(cast(one.constant), to)
        called = "float" if cast is float else self.bind(cast)
        return self.strict([one], to, lambda value: f"{called}({value})")


class Parts(Protocol):
    """What makes fragments of the parts of an expression."""

    def of(self, node: exp.Expr) -> Fragment:
        """The fragment of a part."""

    def one_by_one(self, nodes: Sequence[exp.Expr]) -> list[Fragment]:
        """Parts of which each may make those after it needless."""

    def condition(self, node: exp.Expr, where: str) -> str:
        """Source that is true where a part is, and not where it is FALSE or NULL."""

    def chosen(
        self, branches: list[tuple[str, Fragment]], default: Fragment, what: str
    ) -> Fragment:
        """The value of the first branch whose condition is true."""

    def unified(self, values: list[Fragment], what: str) -> SqlType:
        """The one type of several values."""


def column_of(source: str, of: type | None, declared: SqlType) -> Fragment:
    """A column whose values are of one class; None: it is only passed on."""
    if of is None:
        return Fragment(source, SqlType.OTHER, is_name=True)
    if of is NoPart:
        return Fragment(f"{source}.fail()", SqlType.UNKNOWN)
    found = OF_VALUES.get(of, SqlType.OTHER)
    if found is SqlType.NULL:
        known = SqlType.NULL if declared is SqlType.UNKNOWN else declared
        return Fragment("None", known, is_name=True, constant=None)
    return Fragment(source, found, nullable=False, is_name=True)
