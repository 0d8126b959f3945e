"""Writes who may do what into docs/operations.md, from the Roles of the chart and of drivers.

.venv/bin/python scripts/rights_table.py
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fulmen_operator.manifests.rights import driver_role

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "operations.md"
BEGIN = "<!-- rights: written by scripts/rights_table.py -->\n"
END = "<!-- end of rights -->\n"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
AT_HOME = "operator, besides, in its own namespace"
WHO = ("operator", AT_HOME, "driver", "workers", "editor", "viewer")

Rules = Sequence[Mapping[str, Any]]
Rights = Mapping[tuple[str, str], frozenset[str]]
"""Resource with its group, and the only name that it is about, or none -> verbs."""


def matrix() -> dict[str, Rights]:
    """What everybody may do that Fulmen gives rights to."""
    roles = _roles_of_chart()
    return {
        "operator": rights_of(roles["tools-fulmen-operator"]),
        AT_HOME: rights_of(roles["tools-fulmen-operator-leader"]),
        "driver": rights_of(driver_role("NAME")),
        "workers": {},
        "editor": rights_of(roles["tools-fulmen-topologies-edit"]),
        "viewer": rights_of(roles["tools-fulmen-topologies-view"]),
    }


def rights_of(rules: Rules) -> Rights:
    """Rules by what they are about."""
    found: dict[tuple[str, str], set[str]] = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames") or ("",):
                    kind, slash, part = resource.partition("/")
                    what = f"{kind}.{group}".rstrip(".") + slash + part
                    found.setdefault((what, name), set()).update(rule["verbs"])
    return {what: frozenset(verbs) for what, verbs in found.items()}


def with_table(page: str) -> str:
    """The text of the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(_table(matrix()))
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


def _table(found: Mapping[str, Rights]) -> Iterator[str]:
    yield f"| what | {' | '.join(WHO)} |"
    yield "|---|" + "---|" * len(WHO)
    rows = list(dict.fromkeys(what for who in WHO for what in found[who]))
    for row in sorted(rows, key=lambda what: (rows.index(_first(rows, what[0])), what[1])):
        resource, name = row
        about = f"`{resource}`" + (f" named `{name}`" if name else "")
        cells = [_cell(found[who].get(row, frozenset())) for who in WHO]
        yield f"| {about} | {' | '.join(cells)} |"


def _first(rows: Sequence[tuple[str, str]], resource: str) -> tuple[str, str]:
    return next(row for row in rows if row[0] == resource)


def _cell(verbs: frozenset[str]) -> str:
    return ", ".join(sorted(verbs, key=VERBS.index)) or "no"


def _roles_of_chart() -> dict[str, Rules]:
    helm = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
    if helm is None:
        sys.exit("helm is needed, which renders the chart")
    command = [helm, "template", "fulmen", str(ROOT / "charts" / "fulmen"), "--namespace", "tools"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [thing for thing in yaml.safe_load_all(text) if thing]
    rules = {o["metadata"]["name"]: o["rules"] for o in found if "rules" in o}
    return {name if name.startswith("tools-") else f"tools-{name}": r for name, r in rules.items()}


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
