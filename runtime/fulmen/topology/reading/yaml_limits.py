"""The limits of a YAML document, so that none takes minutes, or the whole stack.

Some bytes of text can mean billions of values, by aliases of aliases: values are counted as the
document means them. A document at these limits takes some seconds.
"""

import sys
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import yaml

from fulmen.visible import is_text

MAX_BYTES = 3 * 512 * 1024
"""The largest file. Kubernetes stores no object that is larger."""
MAX_VALUES = 100_000
"""The most values in all documents of a file, with keys, and each alias as what it stands for."""
MAX_DEPTH = 100
"""The most levels of lists and mappings within each other."""
DEEPEST_OBJECT = 10_000
"""The API server refuses JSON that is deeper."""
CALLS_A_LEVEL = 4
"""The most calls for each level of a value, when it is copied or written in Python."""


def allow_deep_objects() -> None:
    """Let this process read whatever the API server has, which is nested up to 10,000 levels deep.

    Python's own limit of 1,000 calls would make one such object of anybody's the end of the
    process, or of a watch that others are in. JSON of that depth takes a tenth of the stack that
    there is. What is too deep to be used, `beyond_limits` tells.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST_OBJECT * CALLS_A_LEVEL))


def beyond_limits(document: object) -> str | None:
    """Say what is too large about a document that was not read from YAML here; None: nothing.

    The stack does not grow with the depth of the document.
    """
    level, values = [document], 0
    for _ in range(MAX_DEPTH + 1):
        values += len(level)
        if values > MAX_VALUES:
            return f"there are more than {MAX_VALUES:,} values in it"
        level = [inner for value in level for inner in _within(value)]
        if not level:
            return None
    return f"lists and mappings are nested deeper than {MAX_DEPTH} levels"


def _within(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return chain(value, value.values())
    return value if isinstance(value, list | tuple) else ()


class NotAllowed(yaml.MarkedYAMLError):
    """The YAML is valid, but more than a document may hold."""

    def __init__(self, what: str, mark: Any, cure: str = "") -> None:
        super().__init__(problem=what, problem_mark=mark)
        self.cure = cure


class LimitedLoader(yaml.SafeLoader):
    """Refuses documents beyond the limits, and values that are not what their tag says."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = 0
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, and count it."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            node = super().compose_node(parent, index)
            self._count(self._sizes.get(id(node), 1), mark)  # 1: it contains itself
            return node
        before = self._values
        self._count(1, mark)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            what = f"lists and mappings are nested deeper than {MAX_DEPTH} levels"
            raise NotAllowed(what, mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._sizes[id(node)] = self._values - before
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Construct a text; one that can't be written again is an error."""
        text = super().construct_scalar(node)
        if isinstance(text, str) and not is_text(text):
            what = "the text has half a character (a surrogate, such as \\ud800)"
            raise NotAllowed(what, node.start_mark)
        return text

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; one that does not fit its tag is an error in the YAML."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            kind = str(node.tag).rpartition(":")[2]
            shown = f"{node.value[:60]!r}" if isinstance(node, yaml.ScalarNode) else "this"
            what = f"{shown} can't be read as !!{kind}, which its tag says"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error

    def _count(self, values: int, mark: Any) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            what = (
                f"there are more than {MAX_VALUES:,} values up to here, each alias counted as all "
                "that it stands for"
            )
            raise NotAllowed(what, mark)
