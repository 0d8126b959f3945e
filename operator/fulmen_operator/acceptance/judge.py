"""Accepts or refuses a Topology's spec, and resolves it. Pure.

An accepted spec is kept as a whole in the revision: drivers are never started from an unchecked
spec.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fulmen.kube import names
from fulmen.kube.contract import CHECKPOINT_URI
from fulmen.kube.contract.revisions import Mounts
from fulmen.topology.problems import Problem
from fulmen.topology.resource.changes import digest, input_hash
from fulmen.topology.resource.spec import ComponentSpec, Metadata, Topology
from fulmen.topology.resource.spec.pods import (
    ARCHIVE_NAME,
    MAX_CODE_BYTES,
    Checkpoint,
    Code,
    archive_part,
)
from fulmen.topology.validation.check import check
from fulmen_operator.model import Manifest, Object, Observed, Sources
from fulmen_operator.reasons import Reason

C = TypeVar("C", bound=ComponentSpec)


@dataclass(frozen=True)
class CodeFiles:
    """An author's code: contents of ConfigMaps, or a place in a store.

    Attributes:
        content: A digest that identifies the code; empty if there is none.
        parts: How many ConfigMaps have a part each of a packed project; 0: one has all of it.
        contents: The contents of each of the ConfigMaps to be made. Empty if they exist.
        uri: The place of a packed project in a store; empty if it is not in one.
        sha256: The digest that it must have there, or that the parts have together.
    """

    content: str = ""
    parts: int = 0
    contents: Sequence[Manifest] = ()
    uri: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class Accepted:
    """A spec that can run, as far as is known without the author's classes.

    Attributes:
        topology: With the numbers of tasks that are known, without `code`, with a URI of the
            checkpoint.
        hash: The hash of the input: a running driver with another one must be replaced.
        mounts: The mounts of its pods.
        contents: What each ConfigMap with the code is to have. Empty if they are there already.
        warnings: What to think about.
    """

    topology: Topology
    hash: str
    mounts: Mounts
    contents: Sequence[Manifest] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A spec that can't be run.

    Attributes:
        reason: For programs.
        message: For people: all mistakes.
        again_in: Seconds after which it may be otherwise without a change of the spec.
    """

    reason: Reason
    message: str
    again_in: float | None = None


def judge(seen: Observed, tasks: Mapping[str, int]) -> Accepted | Refused:
    """Accept the spec, or tell why it can't run.

    Args:
        seen: The topology, and the sources of its code.
        tasks: The numbers of tasks that components have.
    """
    checked = check(
        _document(seen.topology), checkpoint_tasks=tasks, import_classes=False, for_kubernetes=True
    )
    if checked.errors:
        return Refused(Reason.INVALID_SPEC, listed(checked.errors))
    given = checked.topology()
    code = _code_of(given.spec.code, seen.sources)
    if isinstance(code, Refused):
        return code
    checkpoint = given.spec.checkpoint
    named = checkpoint.persistent_volume_claim
    return Accepted(
        topology=_resolved(given, seen, tasks),
        hash=input_hash(given, code.content),
        mounts=Mounts(
            code=names.code(given.name, code.content) if code.content and not code.uri else "",
            code_parts=code.parts,
            code_uri=code.uri,
            code_sha256=code.sha256,
            claim="" if checkpoint.uri else named or names.claim(given.name),
            owns_claim=not checkpoint.uri and named is None,
        ),
        contents=code.contents,
        warnings=tuple(str(problem) for problem in checked.warnings),
    )


def code_digest(uri: str, sha256: str) -> str:
    """The digest of code that is in a store; empty if it is in none."""
    return digest([uri, sha256]) if uri else ""


def listed(problems: Iterable[Problem | str]) -> str:
    """All mistakes in one text, numbered if there are several."""
    texts = [str(problem) for problem in problems]
    if len(texts) == 1:
        return texts[0]
    return " ".join(f"({number}) {text}" for number, text in enumerate(texts, 1))


def _document(topology: Object) -> dict[str, object]:
    return {
        "apiVersion": topology["apiVersion"],
        "kind": topology["kind"],
        "metadata": {"name": topology["metadata"]["name"]},
        "spec": topology.get("spec"),
    }


def _code_of(code: Code | None, sources: Sources) -> CodeFiles | Refused:
    if code is None:
        return CodeFiles()
    if code.folder is not None:
        message = (
            f"spec.code.folder: {code.folder!r} is a folder on the machine of whoever wrote it. "
            "Put its files into a ConfigMap: fulmen manifest FILE | kubectl apply -f -"
        )
        return Refused(Reason.INVALID_SPEC, message)
    if code.uri is not None:
        sha256 = code.sha256 or ""
        return CodeFiles(code_digest(code.uri, sha256), uri=code.uri, sha256=sha256)
    if code.config_maps:
        return _parts_of(code, sources)
    if code.config_map is None:
        files = dict(code.files)
        return CodeFiles(digest(files), contents=({"data": files},)) if files else CodeFiles()
    source = next(iter(sources.found), None)
    named = f"spec.code.configMap: ConfigMap {code.config_map!r}"
    if source is None:
        message = f"spec.code.configMap: there is no ConfigMap {code.config_map!r}. Make it."
        return Refused(Reason.CODE_NOT_FOUND, message, again_in=30)
    sizes = [*source.texts.values(), *source.binary.values()]
    if not sizes:
        return Refused(Reason.CODE_NOT_FOUND, f"{named} has no data.", again_in=30)
    if ARCHIVE_NAME in source.binary and len(sizes) > 1:
        message = f"{named} has {ARCHIVE_NAME} and other files. Put them into the archive."
        return Refused(Reason.CODE_NOT_FOUND, message, again_in=30)
    if sum(sizes) > MAX_CODE_BYTES:
        message = (
            f"{named} has {sum(sizes)} bytes, but at most "
            f"{MAX_CODE_BYTES} are allowed. {_ELSEWHERE}"
        )
        return Refused(Reason.CODE_TOO_BIG, message, again_in=30)
    return CodeFiles(sources.digest, contents=sources.contents)


def _parts_of(code: Code, sources: Sources) -> CodeFiles | Refused:
    """An archive that is in several ConfigMaps, if they are the right ones."""
    missing, sizes = [], []
    for index, (name, source) in enumerate(zip(code.config_maps, sources.found, strict=True)):
        key = archive_part(index + 1)
        if source is None:
            missing.append(f"spec.code.configMaps[{index}]: there is no ConfigMap {name!r}.")
        elif key not in source.binary:
            missing.append(f"spec.code.configMaps[{index}]: ConfigMap {name!r} has no {key}.")
        else:
            sizes.append(source.binary[key])
    again = "Apply all that fulmen manifest printed."
    if missing:
        return Refused(Reason.CODE_NOT_FOUND, f"{listed(missing)} {again}", again_in=30)
    if any(size > MAX_CODE_BYTES for size in sizes):
        message = (
            f"spec.code.configMaps: parts of {', '.join(map(str, sizes))} bytes,"
            f" but at most {MAX_CODE_BYTES} are allowed in each. {_ELSEWHERE}"
        )
        return Refused(Reason.CODE_TOO_BIG, message, again_in=30)
    if sources.sha256 != code.sha256:
        message = (
            f"spec.code.configMaps: their parts have the SHA-256 {sources.sha256} together, but"
            f" {code.sha256} was asked for, so one of them is another archive's. {again}"
        )
        return Refused(Reason.CODE_NOT_FOUND, message, again_in=30)
    return CodeFiles(
        sources.digest, parts=len(sizes), contents=sources.contents, sha256=sources.sha256
    )


_ELSEWHERE = "Put the code into a store (spec.code.uri), or an image (fulmen image)."


def _resolved(given: Topology, seen: Observed, tasks: Mapping[str, int]) -> Topology:
    checkpoint = Checkpoint(
        uri=given.spec.checkpoint.uri or CHECKPOINT_URI,
        deletion_policy=given.spec.checkpoint.deletion_policy,
        take_over=given.spec.checkpoint.take_over,
    )
    spec = given.spec.model_copy(
        update={
            "code": None,
            "checkpoint": checkpoint,
            "spouts": tuple(_with_tasks(spout, tasks) for spout in given.spec.spouts),
            "transactional": tuple(_with_tasks(one, tasks) for one in given.spec.transactional),
            "bolts": tuple(_with_tasks(bolt, tasks) for bolt in given.spec.bolts),
        }
    )
    metadata = Metadata.model_validate(
        {"name": seen.name, "namespace": seen.namespace, "uid": seen.uid}
    )
    return given.model_copy(update={"spec": spec, "metadata": metadata})


def _with_tasks(component: C, tasks: Mapping[str, int]) -> C:
    """The component with its number of tasks: its own, else the one that it has had so far.

    If it has had none, a checkpoint of an earlier topology of that name may know it, which the
    driver reads.
    """
    return component.model_copy(
        update={"num_tasks": component.num_tasks or tasks.get(component.name)}
    )
