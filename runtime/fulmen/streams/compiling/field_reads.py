"""Which fields a function reads of its row, by its bytecode: to find those that rows don't have.

There is no false alarm. A function that may look first at what there is (try, hasattr, len) is not
judged at all. One that may depend on more than its row, or be there for several streams, is judged
by what it always reads. So some mistakes are only found when a row comes.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import typing
from collections.abc import Callable, Iterator, Sequence
from inspect import CO_VARARGS
from itertools import pairwise
from types import FunctionType
from typing import Any

from fulmen.streams.calls.words import judged
from fulmen.streams.graph.nodes import UNSET, FoldNode, StepNode
from fulmen.streams.graph.places import AuthorLine
from fulmen.streams.rows.shapes import row_class
from fulmen.topology.problems import Problem, did_you_mean, there_are

LOOKS = frozenset(
    {"hasattr", "getattr", "isinstance", "type", "len", "dir", "vars", "eval", "exec"}
)
"""Functions by which others ask what a row has."""


def mistaken_reads(node: StepNode | FoldNode, fields: Sequence[str]) -> Iterator[Problem]:
    """Fields that the functions of a node read, and that its rows don't have.

    Args:
        node: A step, or what keeps something for each key.
        fields: Those that rows have.
    """
    cls = node.parents[0].row
    reads: list[tuple[AuthorLine, str]] = []
    if isinstance(node, FoldNode):
        for position in (0, 1) if node.initial is UNSET else (1,):
            reads += unknown_reads(node.function, fields, cls, position)
    else:
        for function in node.functions.values():
            reads += (read for one in judged(function) for read in unknown_reads(one, fields, cls))
    for line, name in reads:
        cure = did_you_mean(name, fields) or there_are(fields)
        yield Problem("", f"{line}: {node.name!r}: the rows have no field {name!r}", cure)


def unknown_reads(
    function: Callable[..., Any], fields: Sequence[str], cls: type | None, position: int = 0
) -> Iterator[tuple[AuthorLine, str]]:
    """Fields that a function reads, and that its rows don't have; with the line of each.

    Args:
        function: An author's. One that is no plain function is not judged.
        fields: Those that rows have.
        cls: The class of the objects that it gets; None: rows of our own.
        position: Which of its arguments the row is.
    """
    if not isinstance(function, FunctionType) or not _is_plain(cls):
        return
    code = function.__code__
    if code.co_exceptiontable or LOOKS & {*code.co_names} or code.co_argcount <= position:
        return
    row = code.co_varnames[position]
    steps = list(dis.get_instructions(code))
    if any(s.argval == row and s.opname.startswith(("STORE_", "DELETE_")) for s in steps):
        return
    is_alone = code.co_name == "<lambda>" and _depends_on_arguments(function)
    is_alone = is_alone and code.co_argcount == position + 1
    has_attributes = cls is None or not typing.is_typeddict(cls)
    names = {*fields, *dir(row_class(tuple(fields)) if cls is None else cls)}
    for (before, one), after in zip(pairwise(steps), [*steps[2:], None], strict=True):
        if not is_alone and "JUMP" in before.opname:
            return
        if not before.opname.startswith("LOAD_FAST") or before.argval != row:
            continue
        line = AuthorLine(code.co_filename, (one.positions and one.positions.lineno) or 0)
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            if has_attributes and one.argval not in names:
                yield line, str(one.argval)
        elif (
            one.opname == "LOAD_CONST"
            and isinstance(one.argval, str)
            and after is not None
            and after.opname == "BINARY_SUBSCR"
            and (cls is None or not has_attributes)
            and one.argval not in fields
        ):
            yield line, one.argval


def _is_plain(cls: type | None) -> bool:
    """Whether objects of a class have the attributes that the class shows, and no others."""
    if cls is None or typing.is_typeddict(cls):
        return True
    own = [vars(one) for one in cls.__mro__ if one not in (tuple, object)]
    if any("__getattr__" in names or "__getattribute__" in names for names in own):
        return False
    if issubclass(cls, tuple):
        return True
    return (
        dataclasses.is_dataclass(cls) and not hasattr(cls, "__post_init__") and _has_own_init(cls)
    )


def _has_own_init(cls: Any) -> bool:
    return bool(cls.__dataclass_params__.init)


def _depends_on_arguments(function: FunctionType) -> bool:
    """Whether which way a function goes depends on its arguments alone."""
    code = function.__code__
    is_closed = not (code.co_freevars or code.co_kwonlyargcount or code.co_flags & CO_VARARGS)
    read = {
        s.argval for s in dis.get_instructions(code) if s.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return is_closed and not function.__defaults__ and all(hasattr(builtins, name) for name in read)
