"""Parts of expressions that are asked for more than once: a row calculates each of them once.

What every row needs is calculated ahead of the expressions, in a line of its own. What only some
rows need, as it is in a branch, is calculated where it is asked for first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from fulmen.expressions.source.fragments import Fragment, Scope

if TYPE_CHECKING:
    from sqlglot import exp

_LEAVES = ("boolean", "column", "datatype", "identifier", "literal", "null", "var")
_ONLY_INSIDE = ("and", "if", "or", "paren")
"""They are no values that something is asked for; their parts are."""


def key_of(node: Any) -> Hashable:
    """What is equal for parts that mean the same."""
    if isinstance(node, list):
        return tuple(map(key_of, node))
    args = getattr(node, "args", None)
    if args is None:
        return (type(node), node)
    if node.key == "paren":
        return key_of(node.this)
    if node.key == "column":
        return ("column", node.name)
    return (node.key, *((name, key_of(value)) for name, value in args.items() if value))


def split_by(nodes: Any) -> tuple[str, int] | None:
    """The constant separator and part of a `split_part`, if it is plain; else None."""
    if len(nodes) != 3 or any(node.key != "literal" for node in nodes[1:]):
        return None
    by, part = nodes[1:]
    if not by.is_string or not by.this or part.is_string or not part.this.isdigit():
        return None
    return (by.this, int(part.this)) if 0 < int(part.this[:9]) <= 1_000 else None


class RowScope(Scope):
    """The names of a loop over rows, in which nothing is calculated twice for a row."""

    def __init__(self, trees: Iterable[exp.Expr]) -> None:
        """`trees`: the expressions over a row, in the order in which they are compiled."""
        super().__init__()
        self._doubts, self._is_apart = 0, False
        self._times: Counter[Hashable] = Counter()
        self._most_parts: dict[Hashable, int] = {}
        self._made: dict[Hashable, Fragment] = {}
        self._lines: list[str] = []
        for tree in trees:
            self._count(tree)

    def _count(self, node: exp.Expr) -> None:
        name = str(node.this).lower() if node.key == "anonymous" else ""
        if node.key in _LEAVES or name == "try":
            return
        if node.key not in _ONLY_INSIDE and self._is_known(key_of(node)):
            return
        if name == "split_part" and (plain := split_by(node.expressions)):
            text, (by, part) = node.expressions[0], plain
            key = key_of([text, by])
            self._most_parts[key] = max(self._most_parts.get(key, 0), part)
            if not self._is_known(key):
                self._count(text)
            return
        for inside in node.iter_expressions():
            self._count(inside)

    def _is_known(self, key: Hashable) -> bool:
        self._times[key] += 1
        return self._times[key] > 1

    @override
    def most_parts(self, text: exp.Expr, by: str, least: int) -> int:
        return self._most_parts.get(key_of([text, by]), least)

    @override
    @contextmanager
    def perhaps(self) -> Iterator[None]:
        self._doubts += 1
        try:
            yield
        finally:
            self._doubts -= 1

    @override
    @contextmanager
    def apart(self) -> Iterator[None]:
        before, self._is_apart = self._is_apart, True
        try:
            yield
        finally:
            self._is_apart = before

    @override
    def once(self, part: Any, make: Callable[[], Fragment]) -> Fragment:
        key = key_of(part)
        if self._is_apart or self._times[key] < 2:
            return make()
        found = self._made.get(key) or make()
        if key in self._made:  # what is in parentheses has been made by itself
            return self._made[key]
        if found.is_name:
            return found
        name = f"r{len(self._made)}"
        if self._doubts:
            self._lines.append(f"{name} = None")
            source = f"({name} if {name} is not None else ({name} := {found.source}))"
            self._made[key] = replace(found, source=source)
        else:
            self._lines.append(f"{name} = {found.source}")
            self._made[key] = replace(found, source=name, is_name=True)
        return self._made[key]

    def taken_lines(self) -> list[str]:
        """The lines that calculate what was asked for since the last call."""
        lines, self._lines = self._lines, []
        return lines
