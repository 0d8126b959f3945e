"""The environment variables that a topology gives its driver and its workers, on this machine."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic import ValidationError

from fulmen.topology.resource.spec.pods import EnvVar, Pod


class Where(Enum):
    """The place of a run's workers."""

    IN_PROCESS = auto()
    """In the command's own process, without Spark."""
    SPARK = auto()
    """In Spark's processes on this machine."""


@dataclass(frozen=True)
class Environment:
    """The variables of `spec.env`, `spec.driver.env` and `spec.worker.env` on this machine.

    Attributes:
        driver: Variables of this process. Workers inherit them.
        workers: Variables of the workers besides. Without Spark they are set in this process too.
        notes: What the user is to be told: variables whose values are elsewhere.
    """

    driver: Mapping[str, str]
    workers: Mapping[str, str]
    notes: Sequence[str]

    @contextmanager
    def applied(self, where: Where) -> Iterator[None]:
        """Have this process's variables set, and set back at the end."""
        changes = {**self.driver, **(self.workers if where is Where.IN_PROCESS else {})}
        before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)
        time.tzset()  # TZ is read once; processes that are started later read it themselves
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            time.tzset()


def environment_of(document: Any) -> Environment:
    """The environment that a document asks for, which need not be valid."""
    places = ("spec", "spec.driver", "spec.worker")
    both, driver, worker = (_variables(document, place) for place in places)
    missing = [
        f"{place}.env: {variable.name!r} comes from a cluster (valueFrom), and is not set here."
        f" Set it in the environment of this command"
        for place, variables in zip(places, (both, driver, worker), strict=True)
        for variable in variables
        if variable.value_from is not None and variable.name not in os.environ
    ]
    return Environment(_values([*both, *driver]), _values([*both, *worker]), missing)


def _variables(document: Any, place: str) -> Sequence[EnvVar]:
    try:
        for part in place.split("."):
            document = document[part]
        return Pod.model_validate({"env": document["env"]}).env
    except (KeyError, TypeError, ValidationError):  # which the check of the document tells
        return ()


def _values(variables: Sequence[EnvVar]) -> dict[str, str]:
    """The variables whose value is in the document. One without a value is empty, as in a pod.

    Of several variables of the same name the last one counts.
    """
    last = {variable.name: variable for variable in variables}
    return {v.name: v.value or "" for v in last.values() if v.value_from is None}
