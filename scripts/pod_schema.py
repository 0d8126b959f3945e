"""Writes what a podTemplate may have, from the description of its objects that an API server gives.

    kubectl get --raw /openapi/v3/api/v1 | .venv/bin/python scripts/pod_schema.py VERSION

`VERSION` is that of Kubernetes, such as 1.34. Of each kind of object the file has a line: its
fields with their types, without descriptions, and `!` behind those that are needed.
"""

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "runtime/fulmen/topology/resource/spec/pod_schema.json"
ROOT = "PodTemplateSpec"
MERGED = {"PodSpec": ("containers",)}
"""Fields that Kubernetes needs, and Fulmen has if a template lacks them."""
UNREAD = {"ObjectMeta": ("managedFields",)}
PLAIN = {
    "Quantity": "quantity",
    "Time": "text",
    "IntOrString": "number or text",
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
}


def main() -> None:
    """Write the file."""
    described = json.load(sys.stdin)["components"]["schemas"]
    models = {name.rpartition(".")[2]: schema for name, schema in described.items() if _is(name)}
    kinds: dict[str, dict[str, str]] = {}
    _add(ROOT, models, kinds)
    lines = [f"{json.dumps(name)}: {json.dumps(kinds[name])}" for name in sorted(kinds)]
    text = f'{{"version": {json.dumps(sys.argv[1])}, "kinds": {{\n' + ",\n".join(lines) + "\n}}\n"
    TARGET.write_text(text, encoding="utf-8")


def _is(name: str) -> bool:
    return ".core.v1." in name or ".meta.v1." in name or ".resource." in name or "intstr" in name


def _add(name: str, models: dict[str, Any], kinds: dict[str, dict[str, str]]) -> None:
    if name in kinds:
        return
    schema, kinds[name] = models[name], {}
    needed = set(schema.get("required", ())) - set(MERGED.get(name, ()))
    for field, inner in sorted(schema["properties"].items()):
        if field in UNREAD.get(name, ()):
            continue
        mark = "!" if field in needed else ""
        kinds[name][f"{field}{mark}"] = _type(inner, models, kinds)


def _type(schema: dict[str, Any], models: dict[str, Any], kinds: dict[str, Any]) -> str:
    """`[T]` is a list, `{T}` a mapping with any keys, `a|b` one of these texts."""
    for one in (schema, *schema.get("allOf", ())):
        if "$ref" in one:
            name = one["$ref"].rpartition(".")[2]
            if name not in PLAIN:
                _add(name, models, kinds)
            return PLAIN.get(name, name)
    if "enum" in schema:
        return "|".join(schema["enum"])
    if schema["type"] == "array":
        return f"[{_type(schema['items'], models, kinds)}]"
    if "additionalProperties" in schema:
        return f"{{{_type(schema['additionalProperties'], models, kinds)}}}"
    return PLAIN[schema["type"]]


if __name__ == "__main__":
    main()
