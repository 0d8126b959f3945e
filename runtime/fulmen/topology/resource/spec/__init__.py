"""The resource `kind: Topology`: the one source of the CRD, of the docs and of all validation.

These models hold what can be said about each field by itself. What takes several fields, or the
author's classes, is in `validation`. The docstring under a field becomes its description in the CRD
and in the docs.

`topology` has the whole, `components` its spouts and bolts; the others are sections of the spec.
Uses `resource.base`, `resource.component_order`. Used by all that reads a topology.
"""

from fulmen.topology.resource.spec.components import (
    ACKER,
    BoltSpec,
    ComponentSpec,
    Grouping,
    GroupingType,
    Input,
    SpoutSpec,
    Through,
    TransactionalSpoutSpec,
)
from fulmen.topology.resource.spec.topology import (
    API_VERSION,
    KIND,
    Metadata,
    Topology,
    TopologySpec,
)

__all__ = [
    "ACKER",
    "API_VERSION",
    "KIND",
    "BoltSpec",
    "ComponentSpec",
    "Grouping",
    "GroupingType",
    "Input",
    "Metadata",
    "SpoutSpec",
    "Through",
    "Topology",
    "TopologySpec",
    "TransactionalSpoutSpec",
]
