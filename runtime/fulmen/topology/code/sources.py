"""The source of classes, parsed. It is read once: reading takes longer than what is asked of it."""

import ast
import inspect
import textwrap
from weakref import WeakKeyDictionary

_TREES: WeakKeyDictionary[type, ast.Module | None] = WeakKeyDictionary()


def class_tree(cls: type) -> ast.Module | None:
    """The source of a class, which nobody may change; None if it can't be read."""
    if cls not in _TREES:
        try:
            _TREES[cls] = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            _TREES[cls] = None
    return _TREES[cls]
