"""Writes the table of all fields of the resource into docs/guide/configuration.md, from the models.

.venv/bin/python scripts/spec_table.py
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fulmen.topology.resource.spec import Topology

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "configuration.md"
BEGIN = "<!-- fields: written by scripts/spec_table.py -->\n"
END = "<!-- end of fields -->\n"
PLACES = {
    "Topology": "",
    "Metadata": "metadata",
    "TopologySpec": "spec",
    "Autoscale": "spec.autoscale",
    "ScheduledWorkers": "spec.autoscale.schedule[]",
    "SpoutSpec": "spec.spouts[]",
    "TransactionalSpoutSpec": "spec.transactional[]",
    "BoltSpec": "spec.bolts[]",
    "KeyedStateSettings": "spec.keyedState",
    "BoltKeyedState": "spec.bolts[].keyedState",
    "EventTime": "spec.spouts[].eventTime, spec.bolts[].eventTime",
    "Input": "spec.bolts[].inputs[]",
    "Through": "spec.bolts[].inputs[].through",
    "Grouping": "spec.bolts[].inputs[].grouping",
    "Code": "spec.code",
    "Checkpoint": "spec.checkpoint",
    "Savepoints": "spec.savepoints",
    "RestoreFrom": "spec.restoreFrom",
    "Spark": "spec.spark",
    "Tap": "spec.tap",
    "DeadLetterRules": "spec.deadLetters",
    "ServiceSettings": "spec.service",
    "StateService": "spec.service.state",
    "SecretKey": "spec.service.state.token",
    "Client": "spec.service.from[]",
    "LabelSelector": "spec.service.from[].podSelector, spec.service.from[].namespaceSelector",
    "AddressBlock": "spec.service.from[].ipBlock",
    "Pod": "spec.driver, spec.worker",
    "Resources": "spec.driver.resources",
    "EnvVar": "spec.env[], spec.driver.env[], spec.worker.env[]",
    "LocalReference": "spec.driver.imagePullSecrets[]",
}
"""Where each model is in the document; the order of the tables."""

Schema = dict[str, Any]


def tables() -> str:
    """All tables, one for each model."""
    schema = Topology.model_json_schema(by_alias=True)
    models = {"Topology": schema, **schema["$defs"]}
    missing = models.keys() ^ PLACES.keys()
    assert not missing, f"PLACES names other models than there are: {sorted(missing)}"
    parts = [_table(PLACES[name], models[name]) for name in PLACES]
    return "\n" + "\n".join(parts) + "\n"


def with_tables(page: str) -> str:
    """The text of the page with the tables as they should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


def _table(place: str, model: Schema) -> str:
    rows = [f"**{f'`{place}`' if place else 'The document'}**", "", "| field | type | default | |"]
    rows.append("|---|---|---|---|")
    for name, field in model["properties"].items():
        required = name in model.get("required", ())
        cells = [f"`{name}`", type_of(field), "required" if required else _default(field)]
        cells.append(" ".join(field.get("description", "").split()).replace("|", "\\|"))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def type_of(field: Schema) -> str:
    """The type of a value, and its bounds, in a few words."""
    if "$ref" in field:
        return "mapping"
    if "anyOf" in field:
        choices = (type_of(choice) for choice in field["anyOf"] if choice.get("type") != "null")
        return " or ".join(dict.fromkeys(choices))
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return " ".join(f"`{value}`" for value in field["enum"])
    match field.get("type"):
        case "array":
            return f"list of {_plural(type_of(field['items']))}"
        case "object":
            return "mapping"
        case "integer":
            return f"whole number{_bounds(field)}"
        case "number":
            return f"number{_bounds(field)}"
        case "boolean":
            return "`true` or `false`"
        case _:
            return "text"


def _plural(noun: str) -> str:
    return noun if noun == "text" else f"{noun}s"


def _bounds(field: Schema) -> Iterator[str] | str:
    low, high = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    parts = [f"above {above:,}" if above is not None else "", f"from {low:,}" if low else ""]
    parts += ["0 or more" if low == 0 else "", f"to {high:,}" if high is not None else ""]
    return "".join(f" {part}" for part in parts if part).replace(" 0 or more to", " from 0 to")


def _default(field: Schema) -> str:
    default = field.get("default")
    if default in (None, {}, []) or isinstance(default, dict):
        return ""
    return f"`{json.dumps(default)}`".replace('"', "")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
