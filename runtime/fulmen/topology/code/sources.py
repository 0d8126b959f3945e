"""The parsed source of classes. It is cached: reading takes longer than any question about it."""

import ast
import inspect
import textwrap
from weakref import WeakKeyDictionary

_TREES: WeakKeyDictionary[type, ast.Module | None] = WeakKeyDictionary()


def class_tree(cls: type) -> ast.Module | None:
    """The source of a class, not to be changed; None if it can't be read."""
    if cls not in _TREES:
        try:
            _TREES[cls] = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            _TREES[cls] = None
    return _TREES[cls]
