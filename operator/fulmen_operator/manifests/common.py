"""Names, labels and owners, which all objects have."""

from typing import Final

from fulmen.kube import contract
from fulmen.topology.resource.changes import digest
from fulmen.topology.resource.spec import API_VERSION, KIND
from fulmen_operator.model import APPLIED_ANNOTATION, Manifest, Observed

CODE: Final = "code"
"""The component that ConfigMaps with code are labelled with: they are large, and not watched."""


def labels(name: str, component: str = "") -> dict[str, str]:
    """The labels of an object of a topology's."""
    common = {
        contract.NAME_LABEL: contract.APP_NAME,
        contract.INSTANCE_LABEL: name,
        contract.MANAGED_BY_LABEL: contract.MANAGER,
        contract.TOPOLOGY_LABEL: name,
    }
    return common | ({contract.COMPONENT_LABEL: component} if component else {})


def selector(name: str, component: str = "") -> dict[str, str]:
    """The labels that a topology's pods are found by."""
    found = {contract.TOPOLOGY_LABEL: name}
    return found | ({contract.COMPONENT_LABEL: component} if component else {})


def owner(seen: Observed) -> Manifest:
    """The reference by which an object goes when the topology goes."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": seen.name,
        "uid": seen.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def metadata(
    seen: Observed, name: str, component: str = "", annotations: dict[str, str] | None = None
) -> Manifest:
    """The metadata of an object of a topology's, which goes when the topology goes."""
    return {**lasting(seen, name, component, annotations), "ownerReferences": [owner(seen)]}


def lasting(
    seen: Observed, name: str, component: str = "", annotations: dict[str, str] | None = None
) -> Manifest:
    """The metadata of an object of a topology's that may outlive it."""
    made: Manifest = {
        "name": name,
        "namespace": seen.namespace,
        "labels": labels(seen.name, component),
    }
    if annotations:
        made["annotations"] = annotations
    return made


def marked(manifest: Manifest) -> Manifest:
    """The manifest with a digest of itself, by which an object is known to be as it should be.

    A manifest that is marked already stays as it is.
    """
    meta = manifest["metadata"]
    if APPLIED_ANNOTATION in meta.get("annotations", {}):
        return manifest
    annotations = {**meta.get("annotations", {}), APPLIED_ANNOTATION: digest(manifest)}
    return {**manifest, "metadata": {**meta, "annotations": annotations}}
