"""Topologies as YAML: read with nothing guessed, written without what is the default."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from fulmen.errors import ValidationFailed
from fulmen.topology.problems import Problem, did_you_mean
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.reading.yaml_limits import MAX_BYTES, LimitedLoader, NotAllowed
from fulmen.topology.resource.base import fits_64_bits
from fulmen.topology.resource.spec import API_VERSION, KIND, Topology

NOT_YAML = "not YAML"
_LONGEST_NUMBER = 100
"""Characters of a whole number of 64 bits, with some zeros before it, in base 2."""
OTHER_LINE_BREAKS = "\x85\u2028\u2029"


class _Loader(LimitedLoader):
    """YAML as the API server takes it: a key may come once, and dates are text."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping; a key that comes twice is an error."""
        seen = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key == "<<":
                continue
            if key in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node; as values, words that YAML takes for true or false are texts."""
        node = super().compose_node(parent, index)
        is_key = isinstance(parent, yaml.MappingNode) and index is None
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}bool" and not is_key:
            word = node.value
            meant = str(self.bool_values.get(word.lower(), word)).lower()
            if word.lower() != meant:
                what = f"YAML reads {word} as {meant}"
                raise NotAllowed(what, node.start_mark, f"Write '{word}' in quotes, or {meant}.")
        return node

    def construct_whole(self, node: Any) -> int:
        """A whole number, in any of the notations below."""
        text = self.construct_scalar(node).replace("_", "")
        base = 8 if re.fullmatch(r"[-+]?0[0-7]+", text) else 0
        number = int(text, base) if len(text) <= _LONGEST_NUMBER else None
        if number is None or not fits_64_bits(number):
            what = f"a whole number of {len(text)} digits is too large for 64 bits"
            raise NotAllowed(what, node.start_mark, "Write it in quotes.")
        return number


_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    # 010, 0o10, 0x8 and 0B1000 are 8
    "int": r"[-+]?(?:0[bB]_*[01][01_]*|0[oO]_*[0-7][0-7_]*|0[xX]_*[0-9a-fA-F][0-9a-fA-F_]*"
    r"|0[0-7_]*|[1-9][0-9_]*)",
    # 1e3 as well, and what begins with 0 but is not octal
    "float": r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*[eE][-+]?[0-9]+|0[0-9_]*[89][0-9_]*|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
}
"""Texts that kubectl and the API server take for numbers: not 12:30, which other readers take for
750."""
_BOOLEANS = {"y": True, "n": False}
"""Texts that they take for booleans as well, in small letters and large ones."""


_OTHERWISE = {f"{_TAG}{name}" for name in ("timestamp", *_NUMBERS)}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in _OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Text of several lines, such as code, as a block; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (as PyYAML calls it)
        """Write everything out: two components with one config object are still two."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    if any(character in value for character in OTHER_LINE_BREAKS):
        style = '"'  # in other styles YAML takes them for line breaks, and folds them
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
# What the dumper quotes: all that is no text to other readers, and to the API server.
for _name, _pattern in _NUMBERS.items():
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(
            f"{_TAG}{_name}", re.compile(f"(?:{_pattern})$"), list("-+.0123456789")
        )
for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(f"{_TAG}bool", re.compile("[yYnN]$"), list("yYnN"))
_Loader.bool_values = yaml.SafeLoader.bool_values | _BOOLEANS
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_whole)


def load(path: Path | str) -> Topology:
    """The topology in a YAML file, as far as its fields can be judged one by one.

    Raises:
        ValidationFailed: The file can't be read, is not YAML, or its fields are wrong.
    """
    return parse(read_document(path))


def read_document(path: Path | str) -> Any:
    """Read the document in a YAML file.

    Raises:
        ValidationFailed: The file can't be read, is not YAML, or holds no or several documents.
    """
    shown = repr(str(path))
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: of a path with a null byte
        reason = error.strerror if isinstance(error, OSError) else error
        others = Path(path).parent.glob("*.y*ml") if isinstance(error, FileNotFoundError) else ()
        cure = did_you_mean(path, map(str, others))
        raise ValidationFailed([Problem("", f"{shown} can't be read: {reason}", cure)]) from error
    if len(content) > MAX_BYTES:
        what = f"{shown} has more than {MAX_BYTES:,} bytes, the limit of Kubernetes"
        raise ValidationFailed([Problem("", what, "Read large data in open or prepare.")])
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = Problem("", f"{shown} is not text in UTF-8: byte {error.start} is wrong")
        raise ValidationFailed([problem]) from error
    return parse_yaml(text)


def parse_yaml(text: str) -> Any:
    """Read a YAML document.

    Raises:
        ValidationFailed: It is not YAML, or holds no or several documents.
    """
    try:
        documents = [d for d in yaml.load_all(text, _Loader) if d is not None]
    except yaml.MarkedYAMLError as error:
        raise ValidationFailed([_syntax_problem(error)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"the character {chr(error.character)!r} is not allowed in YAML"
        raise ValidationFailed([Problem(f"line {line}", what)]) from error
    if len(documents) != 1:
        what = f"the file holds {len(documents) or 'no'} documents, but must hold one topology"
        raise ValidationFailed([Problem("", what)])
    return documents[0]


_INDENTATION = {
    "expected <block end>, but found '<block mapping start>'": (
        "Begin the line below one that it belongs to: it is indented like none of those above it."
    ),
    "expected <block end>, but found '<block sequence start>'": (
        "Begin the entry below the '-' of the one before it."
    ),
    "mapping values are not allowed here": (
        "Begin the line below one that it belongs to; a text with ': ' in it needs quotes."
    ),
}
"""What a wrong indentation is to PyYAML, and the cure."""


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    """PyYAML's words are good; its snippet, file name and counting from 0 are not."""
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    what = ", ".join(filter(None, [error.context, error.problem]))
    if "cannot start any token" in what and "'\\t'" in what:
        return Problem(place, f"{NOT_YAML}: a tab where only spaces are allowed", "Use spaces.")
    if isinstance(error, NotAllowed):
        return Problem(place, what, error.cure)
    begun = mark.buffer[: mark.pointer + 1] if mark and mark.buffer else ""
    cure = (
        "Write what has ${…} in quotes."
        if begun.endswith("${")
        else _INDENTATION.get(error.problem or "", "")
    )
    return Problem(place, f"{NOT_YAML}: {what}", cure)


def to_document(topology: Topology) -> dict[str, Any]:
    """The topology as plain values, without what is the default."""
    content = topology.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"apiVersion": API_VERSION, "kind": KIND, **content}


def to_yaml(topology: Topology) -> str:
    """The topology as YAML, without what is the default. `load` reads it as an equal topology."""
    return dump_yaml(to_document(topology))


def dump_yaml(document: dict[str, Any]) -> str:
    """A document of plain values as YAML; texts of several lines as people write them."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
