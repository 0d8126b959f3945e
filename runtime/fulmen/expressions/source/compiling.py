"""An expression's tree, with the types of its columns, as Python source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fulmen.expressions.library.arithmetic import GREATEST, Failed
from fulmen.expressions.library.casts import CASTS, to_decimal
from fulmen.expressions.mistakes import ExpressionError, TooDeep
from fulmen.expressions.parsing import column_of
from fulmen.expressions.source import moments, operators
from fulmen.expressions.source.calls import called, joined_texts, like, or_null
from fulmen.expressions.source.fragments import NULL, Fragment, Scope
from fulmen.expressions.sql_types import SqlType, common

if TYPE_CHECKING:
    from sqlglot import exp

_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "intdiv": "//", "mod": "%"}
_COMPARISONS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_NAMED_TYPES = {
    "DOUBLE": SqlType.DOUBLE, "VARCHAR": SqlType.VARCHAR, "TEXT": SqlType.VARCHAR,
    "BOOLEAN": SqlType.BOOLEAN, "DATE": SqlType.DATE, "TIME": SqlType.TIME,
    "TIMESTAMP": SqlType.TIMESTAMP, "TIMESTAMPNTZ": SqlType.TIMESTAMP,
}  # fmt: skip
_TYPE_CURE = (
    "There are BIGINT, INTEGER, DOUBLE, DECIMAL(18, 3), VARCHAR, BOOLEAN, DATE, TIME and TIMESTAMP."
)

_UNDERSTOOD = {
    "this", "expression", "expressions", "to", "ifs", "default", "low", "high", "negate",
    "is_string", "table", "safe", "unit", "zone",
}  # fmt: skip
"""What a part of a tree may say. More would change its meaning."""
DEEPEST = 60
"""How deep an expression may be nested: the source it becomes is nested twice as deep, or more."""


class Compiler:
    """Makes fragments of the parts of one expression.

    Attributes:
        mistakes: What is wrong; None: the first mistake is raised.
    """

    def __init__(
        self,
        text: str,
        columns: Mapping[str, Fragment],
        scope: Scope,
        mistakes: list[ExpressionError] | None = None,
    ) -> None:
        self._text, self._columns, self._scope = text, columns, scope
        self.mistakes = mistakes
        self._depth = 0

    def of(self, node: exp.Expr) -> Fragment:
        """The fragment of a part.

        Raises:
            ExpressionError: It can't be. It has the place of the innermost part that is wrong.
        """
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise TooDeep("it is nested too deeply")
            return self._scope.once(node, lambda: self._of(node))
        except TooDeep:
            raise
        except ExpressionError as error:
            if error.column is None:
                error.column = column_of(node, self._text)
            if self.mistakes is None:
                raise
            self.mistakes.append(error)
            return Fragment("None", SqlType.UNKNOWN, is_name=True)
        finally:
            self._depth -= 1

    def _of(self, node: exp.Expr) -> Fragment:
        key = node.key
        more = [name for name, value in node.args.items() if value and name not in _UNDERSTOOD]
        if more:
            raise ExpressionError(f"{more[0]} in {_shown(node)!r} can't be used in expressions")
        if key in ("add", "sub"):
            found = moments.shifted(self, self._scope, node)
            if found is not None:
                return found
        if key in _ARITHMETIC:
            left, right = self.of(node.this), self.of(node.expression)
            return operators.calculated(self._scope, _ARITHMETIC[key], left, right)
        if key in _COMPARISONS:
            left, right = self.of(node.this), self.of(node.expression)
            return operators.compared(self._scope, _COMPARISONS[key], left, right)
        method: Callable[[Any], Fragment] | None = getattr(self, f"_{key}", None)
        if method is None:
            raise ExpressionError(f"there is no {_shown(node)!r} in expressions")
        return method(node)

    def condition(self, node: exp.Expr, where: str) -> str:
        """Source that is true where a part is, and not where it is FALSE or NULL."""
        key = node.key
        if key == "paren":
            return self.condition(node.this, where)
        if key in ("and", "or"):
            first, *more = node.flatten()
            tests = [self.condition(first, where)]
            with self._scope.perhaps():
                tests += [self.condition(one, where) for one in more]
            return f"({f' {key} '.join(tests)})"
        fragment = self.of(node)
        try:
            return operators.boolean(fragment, where).source
        except ExpressionError as error:
            if self.mistakes is None:
                raise
            error.column = column_of(node, self._text)
            self.mistakes.append(error)
            return "None"

    def _column(self, node: exp.Column) -> Fragment:
        found = self._columns.get(node.name)
        if found is None:
            raise ExpressionError(
                f"there is no field {node.name!r}", wrong=node.name, among=tuple(self._columns)
            )
        return found

    def _literal(self, node: exp.Literal) -> Fragment:
        if node.is_string:
            return self._scope.constant(node.this, SqlType.VARCHAR)
        return self._number(node.this, 1)

    def _number(self, text: str, sign: int) -> Fragment:
        if text.isdigit():
            value = sign * int(text[:40])
            if not -GREATEST - 1 <= value <= GREATEST or len(text) > 40:
                raise ExpressionError(f"{text[:40]} is no integer of 64 bits")
            return self._scope.constant(value, SqlType.BIGINT)
        number = float(text)
        if number - number != 0:
            raise ExpressionError(f"{text[:40]} is too large for a DOUBLE")
        return self._scope.constant(sign * number, SqlType.DOUBLE)

    def _null(self, _: exp.Expr) -> Fragment:
        return NULL

    def _boolean(self, node: exp.Boolean) -> Fragment:
        return self._scope.constant(bool(node.this), SqlType.BOOLEAN)

    def _paren(self, node: exp.Paren) -> Fragment:
        return self.of(node.this)

    def _neg(self, node: exp.Neg) -> Fragment:
        if node.this.key == "literal" and not node.this.is_string:
            return self._number(node.this.this, -1)
        return operators.negated(self._scope, self.of(node.this))

    def _not(self, node: exp.Not) -> Fragment:
        return operators.inverted(self._scope, self.of(node.this))

    def _and(self, node: exp.Expr) -> Fragment:
        return operators.both(self._scope, "AND", self.one_by_one([*node.flatten()]))

    def _or(self, node: exp.Expr) -> Fragment:
        return operators.both(self._scope, "OR", self.one_by_one([*node.flatten()]))

    def one_by_one(self, nodes: Sequence[exp.Expr]) -> list[Fragment]:
        """Parts of which each may make those after it needless."""
        first = self.of(nodes[0])
        with self._scope.perhaps():
            return [first, *(self.of(node) for node in nodes[1:])]

    def _is(self, node: exp.Is) -> Fragment:
        one = self.of(node.this)
        if node.expression.key == "null":
            return operators.is_null(one)
        if node.expression.key != "boolean":
            raise ExpressionError("behind IS is NULL, TRUE or FALSE")
        operators.boolean(one, "IS")
        source = f"({one.source} is {bool(node.expression.this)})"
        return Fragment(source, SqlType.BOOLEAN, nullable=False)

    def _nullsafeeq(self, node: exp.Expr) -> Fragment:
        return operators.same(self._scope, self.of(node.this), self.of(node.expression))

    def _nullsafeneq(self, node: exp.Expr) -> Fragment:
        return operators.inverted(self._scope, self._nullsafeeq(node))

    def _between(self, node: exp.Between) -> Fragment:
        set_it, one = self._scope.named(self.of(node.this))
        within = [
            operators.compared(self._scope, ">=", one, self.of(node.args["low"])),
            operators.compared(self._scope, "<=", one, self.of(node.args["high"])),
        ]
        both = operators.both(self._scope, "AND", within)
        return replace(both, source=f"({set_it}{both.source})") if set_it else both

    def _in(self, node: exp.In) -> Fragment:
        if not node.expressions:
            raise ExpressionError("behind IN is a list in parentheses, such as (1, 2)")
        one, items = self.of(node.this), self.one_by_one(node.expressions)
        operators.compared(self._scope, "=", one, next(iter(items)))
        if all(item.is_constant for item in items) and SqlType.NULL is not one.type:
            of = common((one.type, *(item.type for item in items)))
            if of in (SqlType.BIGINT, SqlType.VARCHAR) or (of is SqlType.UNKNOWN):
                return self._in_set(one, items)
        set_it, one = self._scope.named(one)
        equal = [operators.compared(self._scope, "=", one, item) for item in items]
        any_of = operators.both(self._scope, "OR", equal)
        return replace(any_of, source=f"({set_it}{any_of.source})") if set_it else any_of

    def _in_set(self, one: Fragment, items: list[Fragment]) -> Fragment:
        values = frozenset(item.constant for item in items) - {None}
        name = self._scope.bind(values)
        if any(item.constant is None for item in items):
            return self._scope.strict(
                [one], SqlType.BOOLEAN, lambda a: f"({a} in {name} or None)", nullable=True
            )
        return self._scope.strict([one], SqlType.BOOLEAN, lambda a: f"({a} in {name})")

    def _case(self, node: exp.Case) -> Fragment:
        of = None if node.this is None else self.of(node.this)
        set_it, subject = ("", None) if of is None else self._scope.named(of)
        branches: list[tuple[str, Fragment]] = []
        whens: list[Fragment] = []
        with ExitStack() as later:
            for branch in node.args["ifs"]:
                if subject is None:
                    test = self.condition(branch.this, "WHEN")
                else:
                    whens.append(self.of(branch.this))
                    test = operators.compared(self._scope, "=", subject, whens[-1]).source
                    test, set_it = f"({set_it}{test})", ""
                if not branches:
                    later.enter_context(self._scope.perhaps())
                branches.append((test, self.of(branch.args["true"])))
            default = node.args.get("default")
            other = NULL if default is None else self.of(default)
        found = self.chosen(branches, other, "CASE")
        if of is None:
            return found
        values = [self._scope.converted(value, found.type) for _, value in branches]
        return self._looked_up(of, whens, values, other, found) or found

    def _looked_up(
        self,
        of: Fragment,
        whens: list[Fragment],
        values: list[Fragment],
        other: Fragment,
        found: Fragment,
    ) -> Fragment | None:
        """What constants `of` decides about, if all are texts or whole numbers; else None."""
        if of.type not in (SqlType.VARCHAR, SqlType.BIGINT) or len(whens) < 2:
            return None
        if any(when.type is not of.type or when.constant is None for when in whens):
            return None
        if any(not one.is_constant or one.constant is None for one in (*whens, *values)):
            return None
        table: dict[Any, Any] = {}
        for when, value in zip(whens, values, strict=True):
            table.setdefault(when.constant, value.constant)
        call = f"{self._scope.bind(table)}.get({of.source}"
        other = self._scope.converted(other, found.type)
        if other.is_name:
            return replace(found, source=f"{call}, {other.source})", nullable=other.nullable)
        name = self._scope.temporary()
        source = f"({name} if ({name} := {call})) is not None else {other.source})"
        return replace(found, source=source)

    def chosen(
        self, branches: list[tuple[str, Fragment]], default: Fragment, what: str
    ) -> Fragment:
        """The value of the first branch whose condition is true."""
        of = self.unified([*(value for _, value in branches), default], what)
        values = [(test, self._scope.converted(value, of)) for test, value in branches]
        default = self._scope.converted(default, of)
        nullable = default.nullable or any(value.nullable for _, value in values)
        source = "".join(f"{value.source} if {test} else " for test, value in values)
        return Fragment(f"({source}{default.source})", of, nullable=nullable)

    @staticmethod
    def unified(values: list[Fragment], what: str) -> SqlType:
        """The one type of several values."""
        of = common(value.type for value in values)
        if of is None:
            names = dict.fromkeys(value.type.value for value in values)
            message = f"{what} has values of different types: {', '.join(names)}"
            raise ExpressionError(message, "Write a CAST of some of them.")
        return of

    def _cast(self, node: exp.Expr) -> Fragment:
        one = self.of(node.this)
        make, of = self._made(one, node.args["to"])
        if make is None:
            return one
        is_tried = node.key == "trycast"
        name = self._scope.bind(or_null(make) if is_tried else make)
        return self._scope.strict([one], of, lambda a: f"{name}({a})", nullable=is_tried)

    _trycast = _cast

    def _made(
        self, one: Fragment, wanted: exp.DataType
    ) -> tuple[Callable[[Any], Any] | None, SqlType]:
        """What casts a value to a type, and that type."""
        name = str(wanted.this.value)
        if name == "DECIMAL":
            sizes = [int(size.name) for size in wanted.expressions] or [18, 3]
            digits, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
            if not 0 < digits <= 38 or not 0 <= scale <= digits:
                raise ExpressionError("a DECIMAL has up to 38 digits")
            self._castable(one, SqlType.DECIMAL, (*_DECIMAL_FROM, SqlType.DECIMAL))
            return to_decimal(one.type, digits, scale), SqlType.DECIMAL
        to = SqlType.BIGINT if name in _INTEGERS else _NAMED_TYPES.get(name)
        if to is None:
            raise ExpressionError(f"there is no type {wanted.sql(dialect='duckdb')}", _TYPE_CURE)
        make = CASTS.get((one.type, to))
        if one.type is not to:
            self._castable(one, to, [source for source, target in CASTS if target is to])
        bits = _INTEGERS.get(name, 63)
        return (make if bits == 63 else _narrow(make, bits)), to

    @staticmethod
    def _castable(one: Fragment, to: SqlType, sources: Any) -> None:
        if one.type not in (*sources, SqlType.NULL, SqlType.UNKNOWN):
            raise ExpressionError(f"{one.type.value} can't be cast to {to.value}")

    def _dpipe(self, node: exp.Expr) -> Fragment:
        return joined_texts(self._scope, [self.of(one) for one in node.flatten()])

    def _like(self, node: exp.Expr, escape: Fragment | None = None) -> Fragment:
        value, pattern = self.of(node.this), self.of(node.expression)
        found = like(self._scope, value, pattern, escape, node.key)
        return operators.inverted(self._scope, found) if node.args.get("negate") else found

    _ilike = _like

    def _escape(self, node: exp.Expr) -> Fragment:
        if node.this.key not in ("like", "ilike"):
            raise ExpressionError("ESCAPE is behind LIKE")
        return self._like(node.this, self.of(node.expression))

    def _extract(self, node: exp.Extract) -> Fragment:
        return moments.part(self, self._scope, node)

    def _interval(self, _: exp.Expr) -> Fragment:
        raise ExpressionError("an INTERVAL stands behind + or - of a DATE or a TIMESTAMP")

    def _attimezone(self, node: exp.AtTimeZone) -> Fragment:
        return called(self, self._scope, "timezone", [node.args["zone"], node.this])

    def _anonymous(self, node: exp.Anonymous) -> Fragment:
        return called(self, self._scope, str(node.this), node.expressions)


_DECIMAL_FROM = (SqlType.BIGINT, SqlType.DOUBLE, SqlType.VARCHAR)


def _narrow(make: Callable[[Any], Any] | None, bits: int) -> Callable[[Any], Any]:
    """A cast to an integer of fewer bits."""

    def of(value: Any) -> int:
        number: int = value if make is None else make(value)
        if not -(1 << bits) <= number < 1 << bits:
            raise Failed(f"{number} is no integer of {bits + 1} bits")
        return number

    return of


def _shown(node: exp.Expr) -> str:
    text: str = node.sql(dialect="duckdb")
    return text if len(text) <= 60 else text[:60] + "…"
