"""Writes the tables of all fields of the resource on Kubernetes into docs/crd.md.

.venv/bin/python scripts/crd_docs.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fulmen.topology.resource.changes import EFFECTS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from crd import definition  # noqa: E402  (a script finds its neighbours so)

PAGE = ROOT / "docs" / "crd.md"
Schema = dict[str, Any]

BEGIN = "<!-- fields: written by scripts/crd_docs.py -->\n"
END = "<!-- end of fields -->\n"


def with_tables(page: str) -> str:
    """The text of the page with the tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{_tables()}{END}{after}"


def _tables() -> str:
    version = definition()["spec"]["versions"][0]
    fields = version["schema"]["openAPIV3Schema"]["properties"]
    rows = ["| field | type | default | what a change does | |", "|---|---|---|---|---|"]
    rows += [_row(*leaf, effects=True) for leaf in leaves(fields["spec"], "")]
    status = ["| field | type | |", "|---|---|---|"]
    status += [_row(*leaf, effects=False) for leaf in leaves(fields["status"], "")]
    rules = [f"- `{place}`: {text}" for place, text in _rules(fields["spec"], "spec")]
    return (
        "\n## Fields of `spec`\n\n"
        + "\n".join(rows)
        + "\n\n## Rules that the API server checks\n\n"
        + "\n".join(rules)
        + "\n\n## Fields of `status`\n\n"
        + "\n".join(status)
        + "\n\n"
    )


def leaves(schema: Schema, place: str) -> Iterator[tuple[str, Schema]]:
    """Every field that has no fields of its own, with its place."""
    for name, field in schema["properties"].items():
        where = f"{place}.{name}" if place else name
        inner = field["items"] if field.get("type") == "array" else field
        if "properties" in inner:
            yield from leaves(inner, where + ("[]" if inner is not field else ""))
        else:
            yield where, field


def _row(place: str, field: Schema, effects: bool) -> str:
    text = field["description"].replace("|", "\\|")
    cells = [f"`{place}`", _type(field)]
    if effects:
        default = field.get("default")
        cells += ["" if default is None else f"`{default}`".lower(), EFFECTS[place]]
        if isinstance(default, str):
            cells[2] = f"`{default}`"
    return f"| {' | '.join([*cells, text])} |"


def _type(field: Schema) -> str:
    if "enum" in field:
        return " ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if "x-kubernetes-int-or-string" in field:
        return "quantity"
    names = {"integer": "whole number", "object": "mapping", "string": "text"}
    kind: str = field["type"]
    return names.get(kind, kind) + _bounds(field)


def _bounds(field: Schema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    if field.get("exclusiveMinimum"):
        return f", above {low:,} to {high:,}"
    if low is not None and high is not None and abs(high) < 2**40:
        return f", {low:,} to {high:,}"
    return f", at most {field['maxLength']:,} long" if field.get("maxLength") else ""


def _rules(schema: Schema, place: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield place, rule["message"]
    for name, field in schema.get("properties", {}).items():
        inner = field["items"] if field.get("type") == "array" else field
        suffix = "[]" if inner is not field else ""
        yield from _rules(inner, f"{place}.{name}{suffix}")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
