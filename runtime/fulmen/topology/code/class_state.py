"""Finds state that a component keeps in its class, not in an instance: it is not durable.

Only attributes that methods change are told: a table in the body of a class is right there. Values
that `__init__`, `open` and `prepare` set are made again with each process.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from typing import Any
from weakref import WeakKeyDictionary

from fulmen.topology.code.sources import class_tree

CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
BEFORE = ("__init__", "__new__", "__init_subclass__", "open", "prepare")
AFTER = ("close", "cleanup")
CHANGES = {
    *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"),
    *("pop", "popitem", "popleft", "remove", "discard", "clear", "subtract", "rotate", "sort"),
    *("reverse", "move_to_end", "difference_update", "intersection_update"),
    "symmetric_difference_update",
}
ARGUMENT_CHANGES = {"heappush", "heappop", "heapreplace", "heappushpop", "insort", "insort_left"}
"""Functions that change their first argument."""


def kept_in_class(instance: Any) -> Iterator[tuple[str, str]]:
    """Attributes of its class that an instance's methods change: (message, cure)."""
    cls = type(instance)
    owners, methods, opening, called = _calls_of(cls)
    assigned = {name for method in opening for name in methods[method].assigned}
    set_on_class = {name for method in called for name in method.set_on_class}
    of_instances = {*vars(instance), *assigned} - set_on_class | {*instance.transient}
    for name in sorted({name for method in called for name in method.changed} | set_on_class):
        found = next((base for base in cls.__mro__ if name in vars(base)), None)
        if found is None or found not in owners or name in of_instances:
            continue
        if name in set_on_class or isinstance(vars(found)[name], CONTAINERS):
            yield (
                f"{found.__module__}.{found.__qualname__}.{name} belongs to the class, and methods"
                " change it: all tasks of a process share it, and it is lost with the process",
                f"Set self.{name} in __init__, or use self.state. If it may be lost, name it in"
                " transient.",
            )


def changed_in(cls: type) -> set[str]:
    """Attributes whose values methods of a class change in place, besides initial values."""
    *_, called = _calls_of(cls)
    return {name for method in called for name in method.changed}


def _calls_of(cls: type) -> tuple[list[type], dict[str, _Method], set[str], list[_Method]]:
    """The author's classes of a class, their methods, those that open it, and the others."""
    owners = [base for base in cls.__mro__ if base.__module__.partition(".")[0] != "fulmen"]
    methods: dict[str, _Method] = {}
    for owner in reversed(owners):
        for name, method in _methods_of(owner).items():
            methods[name] = method.on_top_of(methods.get(name))
    opening = _reached(methods, BEFORE)
    others = methods.keys() - opening - _reached(methods, AFTER)
    return owners, methods, opening, [methods[name] for name in _reached(methods, others)]


class _Method(ast.NodeVisitor):
    """A method's use of attributes of its instance and of its class.

    Attributes:
        assigned: Attributes that it gives the instance.
        set_on_class: Attributes that it gives the class.
        changed: Attributes whose value it changes in place.
        called: Methods of the same instance that it calls.
        extends: Methods of a base that it calls.
    """

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> None:
        self.name = function.name
        arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        kinds = {node.id for node in function.decorator_list if isinstance(node, ast.Name)}
        first = set() if "staticmethod" in kinds else {*arguments[:1]}
        self._instance, self._class = (set(), first) if "classmethod" in kinds else (first, set())
        self._class.add(owner)
        self._names: dict[str, str] = {}  # a local name -> the attribute that it stands for
        self.assigned: set[str] = set()
        self.set_on_class: set[str] = set()
        self.changed: set[str] = set()
        self.extends: set[str] = set()
        self.called: set[str] = set()
        for statement in function.body:
            self.visit(statement)

    def on_top_of(self, base: _Method | None) -> _Method:
        """The method joined with a base's method of that name, if it calls that by `super()`."""
        if base is None or self.name not in self.extends:
            return self
        both = copy.copy(self)
        both.assigned = self.assigned | base.assigned
        both.set_on_class = self.set_on_class | base.set_on_class
        both.changed = self.changed | base.changed
        both.called = self.called | base.called
        return both

    def _attribute(self, node: ast.expr) -> str | None:
        """The attribute that an expression is the value of, such as `x` for `self.x`."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute) and self._is_owner(node.value):
            return node.attr
        return None

    def _is_owner(self, node: ast.expr) -> bool:
        """Whether a node is the instance or its class."""
        return (isinstance(node, ast.Name) and node.id in self._instance) or self._is_class(node)

    def _is_class(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._class
            case ast.Attribute(value=value, attr="__class__"):
                return self._is_owner(value)
            case ast.Call(func=ast.Name(id="type"), args=[value]):
                return self._is_owner(value)
        return False

    def _change(self, node: ast.expr) -> None:
        while isinstance(node, ast.Subscript):  # self.x[a][b] = c
            node = node.value
        if (name := self._attribute(node)) is not None:
            self.changed.add(name)

    def visit_Assign(self, node: ast.Assign) -> None:
        """`self.x = …`, `self.x[…] = …`, and `x = self.x`."""
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit an assignment with a type."""
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._assign(part, ast.Constant(None))
            case ast.Subscript():
                self._change(target)
            case ast.Attribute(attr=name, value=owner) if self._is_class(owner):
                self.set_on_class.add(name)
            case ast.Attribute(attr=name, value=owner) if self._is_owner(owner):
                self.assigned.add(name)
            case ast.Name(id=name):
                self._names.pop(name, None)
                if (attribute := self._attribute(value)) is not None:
                    self._names[name] = attribute

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """`self.x[…] += …`, `self.x |= …`."""
        self._change(node.target)
        if isinstance(node.target, ast.Attribute) and self._is_class(node.target.value):
            self.set_on_class.add(node.target.attr)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """`del self.x[…]`."""
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                self._change(target)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`self.x.append(…)`, `heappush(self.x, …)`, `self.method()`."""
        match node.func:
            case ast.Attribute(value=value, attr=name):
                if name in CHANGES:
                    self._change(value)
                if self._is_owner(value):
                    self.called.add(name)
                if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super":
                    self.extends.add(name)
            case ast.Name(id=name):
                pass
            case _:
                name = ""
        if name in ARGUMENT_CHANGES and node.args:
            self._change(node.args[0])
        self.generic_visit(node)


_METHODS: WeakKeyDictionary[type, Mapping[str, _Method]] = WeakKeyDictionary()


def _methods_of(cls: type) -> Mapping[str, _Method]:
    """The methods in the body of a class, if its source can be read. It is looked through once."""
    if cls not in _METHODS:
        tree = class_tree(cls)
        _METHODS[cls] = {} if tree is None else _methods_in(tree, cls)
    return _METHODS[cls]


def _methods_in(tree: ast.Module, cls: type) -> dict[str, _Method]:
    bodies = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        node.name: _Method(node, cls.__name__)
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _reached(methods: Mapping[str, _Method], begin: Iterable[str]) -> set[str]:
    """The methods that are called from some, and those themselves."""
    found: set[str] = set()
    waiting = list(begin)
    while waiting:
        name = waiting.pop()
        if name in methods and name not in found:
            found.add(name)
            waiting += methods[name].called
    return found
