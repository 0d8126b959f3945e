"""The options of a component: its own `config`, as its class's `config_model` validates it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fulmen.api import Component
from fulmen.errors import CodeError, ValidationFailed
from fulmen.topology.code.loading import load_class
from fulmen.topology.code.sinks import with_guarantee
from fulmen.topology.configuration.guesses import Guesses, mended, unknown_streams, validated
from fulmen.topology.configuration.option_problems import as_meant, option_problems, within
from fulmen.topology.configuration.placeholders import (
    PLACEHOLDER,
    EqualKeys,
    Place,
    Unset,
    mistaken,
    resolved,
    stand_in,
)
from fulmen.topology.problems import Problem
from fulmen.topology.resource.spec import Topology, TopologySpec

NOT_KNOWN = "its streams depend on this, which is not known before it runs"


@dataclass(frozen=True)
class Configuration:
    """A component's configuration where it runs.

    Attributes:
        config: The topology's `config`.
        conf: The topology's `config`, with the component's own on top of it.
        options: The component's own as its class's `config_model`; None: it has none.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    conf: Mapping[str, Any] = field(default_factory=dict)
    options: Any = None


@dataclass
class CheckedOptions:
    """A component's options, as far as they are known before it runs.

    Attributes:
        problems: Mistakes in them.
        options: The validated model; None: there is none, or it is not known yet.
        has_streams: Whether the component's streams are known: they don't depend on unknown
            options.
        guesses: Possible options, if they have variables without default.
        mended: If there are mistakes: options with guesses in their places, for the streams alone.
    """

    problems: list[Problem] = field(default_factory=list)
    options: Any = None
    has_streams: bool = True
    guesses: Guesses | None = None
    mended: Any = None


def check_options(cls: type, config: Mapping[str, Any], path: str, label: str) -> CheckedOptions:
    """Find the mistakes in a component's `config`, wherever it will run.

    A text with a variable without default counts as right: it may become any value. What is
    misspelt counts as what is meant for all others, so that it hides none of them.

    Args:
        cls: The component's class.
        config: Its own.
        path: The path of the component in the document.
        label: The component's name in messages: `bolt 'count'`.
    """
    model, component = getattr(cls, "config_model", None), path
    path = f"{path}.config"
    checked = CheckedOptions(list(_mistaken(config, path, f"{label}: ")))
    if model is None:
        return checked
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        message = f"{label}: config_model of {cls.__name__} is {model!r}, but must be a class"
        checked.problems.append(Problem(path, message, "Derive it from pydantic.BaseModel."))
        return checked
    known, unknown, variables = stand_in(config)
    checked.guesses = guesses = Guesses(cls, config, variables)
    try:
        checked.options = validated(cls, known)
    except ValidationError as error:
        checked.options, wrong = _wrong_whatever(guesses, error, path, f"{label}: ")
        corrected, misspelt = as_meant(config, wrong)
        if misspelt:
            checked = check_options(cls, corrected, component, label)
            checked.problems = [*misspelt, *checked.problems]
            return checked
        checked.problems += (problem for _, problem in wrong)
        if wrong and depends_on_options(cls):
            checked.mended = mended(cls, known, unknown)
            checked.has_streams = checked.mended is not None
    is_mended = checked.mended is not None
    if checked.has_streams and not is_mended and variables and depends_on_options(cls):
        for place in (*unknown_streams(cls, known, unknown), *guesses.keys_of_streams(known)):
            cure = "Write the value instead, or one that has a default: ${NAME:-value}."
            problem = Problem(within(path, place), f"{label}: {NOT_KNOWN}", cure)
            checked.problems.append(problem)
            checked.has_streams = False
    return checked


def _wrong_whatever(
    guesses: Guesses, error: ValidationError, path: str, label: str
) -> tuple[Any, list[tuple[Place, Problem]]]:
    """Options as they may be, None if that is not known; and what is wrong with any of them."""

    def problems_of(
        error: ValidationError, values: Mapping[str, str]
    ) -> list[tuple[Place, Problem]]:
        known, unknown, _ = stand_in(guesses.config, values)
        found = option_problems(guesses.cls.config_model, error, known, path, label)
        return [(place, problem) for place, problem in found if place not in unknown]

    wrong = problems_of(error, {})
    for values in ({}, *guesses.values()):
        try:
            return guesses.options(values), []
        except ValidationError as other:
            now = problems_of(other, values)
            wrong = [problem for problem in wrong if problem in now]
            if not wrong:
                break
    return None, wrong


def depends_on_options(cls: Any) -> bool:
    """Whether a class's streams depend on its options."""
    return getattr(cls, "outputs_for", None) is not Component.outputs_for


def _mistaken(config: Any, path: str, label: str) -> Iterator[Problem]:
    for place, text in mistaken(config):
        message = f"{label}{text} is not replaced, since it names no environment variable"
        cure = "Write ${NAME} with letters, digits and '_', or $${ for a literal ${."
        yield Problem(within(path, place), message, cure, "warning")


def mistaken_in_topology(spec: TopologySpec) -> Iterator[Problem]:
    """Texts of the topology's own `config` that look like placeholders and are none."""
    yield from _mistaken(spec.config, "spec.config", "")


def configured(
    topology: Topology,
    component: str,
    code_folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration of a component in this process.

    Args:
        topology: The topology, valid.
        component: A spout or bolt of it.
        code_folder: The folder of the author's modules; None: installed packages.
        environ: The environment. Default: this process's.

    Raises:
        ValidationFailed: A variable is not set, or has a wrong value; it names all.
    """
    environ = os.environ if environ is None else environ
    own = topology.component(component)
    place, label = _place_of(topology.spec, component)
    config, unset = resolved(topology.spec.config, environ)
    problems = list(_unset(unset, "spec.config"))
    mine, unset = resolved(own.config, environ)
    problems += _unset(unset, f"{place}.config", f"{label}: ")
    if problems:
        raise ValidationFailed(problems)
    try:
        cls = load_class(own.class_, code_folder)
    except CodeError:  # which is told where an instance of it is made
        return Configuration(config, {**config, **mine})
    if topology.spec.transactional:
        mine = with_guarantee(cls, mine)
    options = options_of(cls, own.config, mine, f"{place}.config", label)
    return Configuration(config, {**config, **mine}, options)


def configured_alone(cls: type, config: Mapping[str, Any], label: str) -> Configuration:
    """The configuration of a component without a topology. See `configured`."""
    mine, unset = resolved(config, os.environ)
    if unset:
        raise ValidationFailed(list(_unset(unset, "config", f"{label}: ")))
    return Configuration(conf=mine, options=options_of(cls, config, mine, "config", label))


def options_of(
    cls: type, config: Mapping[str, Any], known: Mapping[str, Any], path: str, label: str
) -> Any:
    """The validated model of a component; None: its class has none.

    Args:
        cls: The component's class.
        config: The `config` in the file.
        known: The `config` with the values of the environment.
        path: The path of the `config` in the document.
        label: The component's name in messages.

    Raises:
        ValidationFailed: There are mistakes; it names all of them.
    """
    model: Any = getattr(cls, "config_model", None)
    if model is None:
        return None
    try:
        return validated(cls, known)
    except ValidationError as error:
        found = option_problems(model, error, config, path, f"{label}: ")
        problems = [_with_variables(config, place, problem) for place, problem in found]
    raise ValidationFailed(problems)  # without pydantic's own, which has the values


def _with_variables(config: Any, place: Place, problem: Problem) -> Problem:
    """The problem, with the variables that have wrong values as its cure."""
    for part in place:
        try:
            config = config[part]
        except (KeyError, IndexError, TypeError):
            return problem
    names = [match["name"] for match in PLACEHOLDER.finditer(str(config)) if match["name"]]
    if not names or not isinstance(config, str):
        return problem
    cure = f"It is the value of the environment variable {' and '.join(names)}."
    return replace(problem, cure=cure)


def _unset(wrong: Sequence[Unset | EqualKeys], path: str, label: str = "") -> Iterator[Problem]:
    for one in wrong:
        if isinstance(one, EqualKeys):
            message = f"{label}{one.place[-1]!r} stands for a key that is there already"
            yield Problem(within(path, one.place), message, "Give each key another value.")
            continue
        message = f"{label}the environment variable {one.variable!r} is not set"
        cure = f"Set it (on Kubernetes in spec.env), or give a default: ${{{one.variable}:-value}}."
        yield Problem(within(path, one.place), message, cure)


def _place_of(spec: TopologySpec, name: str) -> tuple[str, str]:
    """A component's path in its document, and its name in messages."""
    listed = (
        ("spout", "spouts", spec.spouts),
        ("transactional spout", "transactional", spec.transactional),
        ("bolt", "bolts", spec.bolts),
    )
    for kind, section, components in listed:
        for number, component in enumerate(components):
            if component.name == name:
                return f"spec.{section}[{number}]", f"{kind} {name!r}"
    raise KeyError(name)
