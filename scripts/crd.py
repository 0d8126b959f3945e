"""Writes the resource's definition for Kubernetes, from the models, into crds/ and the chart.

.venv/bin/python scripts/crd.py
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fulmen.kube.contract import GROUP, PLURAL, VERSION
from fulmen.topology.resource.spec import KIND, TopologySpec
from fulmen.topology.resource.status import TopologyStatus

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from crd_schema import rules, structural  # noqa: E402  (a script finds its neighbours so)

FILE = ROOT / "crds" / f"{PLURAL}.{GROUP}.yaml"
CHART_FILE = ROOT / "charts" / "fulmen" / "templates" / "crd.yaml"
HEAD = "# Written by scripts/crd.py from the models in runtime/fulmen/topology. Don't edit.\n"
COLUMNS = [
    # name, type, where, what it is, 1: only with -o wide
    ("State", "string", ".status.state", "What the topology is doing.", 0),
    (
        "Ready",
        "string",
        '.status.conditions[?(@.type=="Ready")].status',
        "Whether it does what the spec asks for.",
        0,
    ),
    ("Workers", "integer", ".status.workers.ready", "Workers that run.", 0),
    ("Executors", "integer", ".status.executors", "Executors, those of ackers included.", 0),
    ("Tasks", "integer", ".status.tasks", "Tasks, ackers included.", 0),
    ("Ackers", "integer", ".status.ackers", "Acker tasks.", 0),
    ("Restarts", "integer", ".status.restarts.count", "Drivers that were started again.", 0),
    ("Age", "date", ".metadata.creationTimestamp", "Time since it was made.", 0),
    ("Attempt", "integer", ".status.attempt", "The number of the driver.", 1),
    ("Last batch", "integer", ".status.lastBatch", "The last batch that was committed.", 1),
    ("Message", "string", ".status.message", "What to know now.", 1),
]

NOT_LOOKED_AT = {"observedGeneration": 0}
"""The status that a topology has before the operator has looked at it. Without any status, kstatus
would take it for ready, and so would Flux, which waits by its rules."""


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["topo"],
                "categories": ["fulmen"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.workers",
                "statusReplicasPath": ".status.workers.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {
                "name": name,
                "type": kind,
                "jsonPath": path,
                "description": what,
                **({"priority": wide} if wide else {}),
            }
            for name, kind, path, what, wide in COLUMNS
        ],
        "schema": {"openAPIV3Schema": _schema()},
    }


def _schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "A topology of spouts and bolts that runs on Apache Spark.",
        "required": ["spec"],
        **rules(""),
        "properties": {
            "apiVersion": {"type": "string", "description": "The version of this resource."},
            "kind": {"type": "string", "description": "The kind of this resource."},
            "metadata": {"type": "object"},
            "spec": structural(TopologySpec, "spec"),
            "status": {**structural(TopologyStatus, "status"), "default": NOT_LOOKED_AT},
        },
    }


def _without_defaults(schema: dict[str, Any], but: Sequence[str] = ()) -> dict[str, Any]:
    """A schema by which the API server fills in nothing that the user has left out.

    Defaults are the model's. With those of the server, an operator that is older than the
    definition would find a field that it does not know in every topology, and refuse them all.

    Args:
        schema: The schema.
        but: Properties that keep theirs: `kubectl scale` reads the number of workers.
    """
    found = {key: value for key, value in schema.items() if key != "default"}
    for name, one in found.get("properties", {}).items():
        kept = {"default": one["default"]} if name in but else {}
        found["properties"] = {**found["properties"], name: {**_without_defaults(one), **kept}}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _without_defaults(found[key])
    return found


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (as PyYAML calls it)
        """Write everything out: kubectl does not care, but people do."""
        return True


def texts() -> dict[Path, str]:
    """The files, and what must be in them."""
    plain = definition()
    fields = plain["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    fields["spec"] = _without_defaults(fields["spec"], but=("workers",))
    kept = {**plain, "metadata": {**plain["metadata"]}}
    kept["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    return {
        FILE: HEAD + yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=100),
        CHART_FILE: HEAD
        + "{{- if .Values.crd.install }}\n"
        + yaml.dump(kept, Dumper=_Dumper, sort_keys=False, width=100)
        + "{{- end }}\n",
    }


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
