"""Recognises a file that was written for Storm's Flux, and says what its fields are called here."""

from collections.abc import Mapping
from typing import Any

from fulmen.topology.problems import Problem

GUIDE = "docs/migration.md"
FLUX = {
    "name": "metadata: {name: …}",
    "config": "fields of spec, such as workers and messageTimeoutSeconds; keys of your own go into "
    "spec.config",
    "spouts": "spec.spouts, with id as name and className as class (module.Class)",
    "bolts": "spec.bolts, with id as name, className as class (module.Class), and with inputs",
    "streams": "the inputs of the bolt that is 'to': inputs: [{from: split, grouping: {type: "
    "fields, fields: [word]}}]",
    "components": "values in config of a spout or bolt, which open or prepare receive; or write "
    "the topology in Python",
    "topologySource": "a file in Python that defines topology = TopologyBuilder(…)",
}
"""Fields of a Flux file, and what they are here."""
_OWN = ("apiVersion", "kind", "metadata", "spec")


def is_flux(document: object) -> bool:
    """Whether a document is a file for Flux, not a resource."""
    if not isinstance(document, Mapping) or any(key in document for key in _OWN):
        return False
    return "topologySource" in document or bool({"spouts", "bolts", "streams"} & document.keys())


def flux_problems(document: Mapping[Any, Any]) -> list[Problem]:
    """For each part of a Flux file, what to write instead."""
    message = "this is a file for Storm's Flux, not a resource of the kind Topology"
    cure = f"Write it as below; 'Flux' in {GUIDE} has an example."
    parts = [
        Problem(str(key), f"what Flux calls {key!r} is {FLUX[key]}")
        for key in document
        if key in FLUX
    ]
    return [Problem("", message, cure), *parts]
