"""The kinds of components, and the classes that each may have."""

from fulmen import api
from fulmen.topology.code.streamparse import PORT_CURE, is_streamparse
from fulmen.topology.problems import Problem
from fulmen.topology.reading.field_problems import SECTIONS
from fulmen.topology.reading.partial_document import ComponentPart

TRANSACTIONAL = "transactional spout"
BASES: dict[str, tuple[type, ...]] = {
    "spout": (api.Spout,),
    TRANSACTIONAL: (
        api.TransactionalSpout,
        api.PartitionedTransactionalSpout,
        api.OpaquePartitionedTransactionalSpout,
    ),
    "bolt": (api.Bolt, api.BasicBolt, api.ArrowBolt, api.Sink),
    "bolt of a transactional topology": (api.BatchBolt, api.BasicBolt, api.Sink),
}

LISTED = {kind: section for section, kind in SECTIONS.items()}


def wrong_kind(
    part: ComponentPart, cls: type, name: str, wanted_bases: tuple[type, ...]
) -> Problem:
    """The mistake that a component's class is none of its kind. `name`: as it is told."""
    path = f"{part.path}.class"
    if part.kind == "bolt" and issubclass(cls, api.BatchBolt):
        message = f"{part.label}: {name} is a BatchBolt, which only a transactional topology has"
        return Problem(path, message, "Give the source under spec.transactional, not under spouts.")
    if part.kind == "bolt" and issubclass(cls, BASES["bolt"]):
        message = f"{part.label}: {name} is a bolt that a transactional topology can't have"
        cure = "Derive it from fulmen.BatchBolt or fulmen.BasicBolt: there are no acks to make."
        return Problem(path, message, cure)
    for other, place in LISTED.items():
        if other != part.kind and issubclass(cls, BASES[other]):
            message = f"{part.label}: {name} is a {other}, but is listed under {LISTED[part.kind]}"
            return Problem(path, message, f"Move it to {place}.")
    bases = [f"fulmen.{base.__name__}" for base in wanted_bases]
    wanted = " or ".join(filter(None, [", ".join(bases[:-1]), bases[-1]]))
    cure = PORT_CURE if is_streamparse(cls) else ""
    return Problem(path, f"{part.label}: {name} is not derived from {wanted}", cure)
