"""Writes the tables of options into the pages that ask for them, from the models.

    .venv/bin/python scripts/option_tables.py

A page asks by a line `<!-- options: module.Class -->`, where the class is a pydantic model or has
one as its `config_model`. The table is put below that line, up to `<!-- end of options -->`.
"""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from spec_table import type_of  # noqa: E402  (a script finds its neighbours so)

BEGIN = re.compile(r"<!-- options: (?P<model>[\w.]+) -->\n")
END = "<!-- end of options -->\n"

Schema = dict[str, Any]


def option_table(model: type[BaseModel]) -> str:
    """The options of a model as a table: name, type, default, docstring.

    An option that is a mapping with options of its own is one row: its model has its own table.
    """
    schema = model.model_json_schema(by_alias=True)
    fields = dict(zip(schema["properties"], model.model_fields.values(), strict=True))
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for name, option in schema["properties"].items():
        text = " ".join(option.get("description", "").split())
        cells = [f"`{name}`", _type(option, schema.get("$defs", {})), _default(fields[name]), text]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def with_tables(page: str) -> str:
    """The text of a page with its tables as they should be."""
    parts, at = [], 0
    for match in BEGIN.finditer(page):
        end = page.index(END, match.end())
        parts += [page[at : match.end()], "\n", option_table(_model(match["model"])), "\n"]
        at = end
    return "".join([*parts, page[at:]])


def pages() -> list[Path]:
    """The pages that ask for tables."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in found if BEGIN.search(page.read_text(encoding="utf-8"))]


def _model(name: str) -> type[BaseModel]:
    module, _, attribute = name.rpartition(".")
    found: Any = getattr(importlib.import_module(module), attribute)
    model: type[BaseModel] = found if issubclass(found, BaseModel) else found.config_model
    return model


def _type(option: Schema, definitions: Schema) -> str:
    """The type of an option. Of a mapping of several kinds it says which, and by what."""
    if "$ref" in option:
        return _type(definitions[option["$ref"].rpartition("/")[2]], definitions)
    if kinds := option.get("discriminator", {}).get("mapping"):
        by = option["discriminator"]["propertyName"]
        return f"mapping whose `{by}` is {' '.join(f'`{kind}`' for kind in kinds)}"
    if option.get("format") == "password":
        return "text, secret"
    for several in ("anyOf", "oneOf"):
        if several in option:
            kinds = [_type(o, definitions) for o in option[several] if o.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if option.get("type") == "array" and "items" in option:
        inner = _type(option["items"], definitions)
        return f"list of {'mappings' if inner == 'mapping' else inner}"
    return type_of(option) if option.get("type") or "const" in option else "any value"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if value in (None, "", (), [], {}) or value.__class__.__name__.startswith("Secret"):
        return ""
    return f"`{json.dumps(value, default=str)}`".replace('"', "")


if __name__ == "__main__":
    for path in pages():
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
