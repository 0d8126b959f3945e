"""Storm's TopologyBuilder: the same model as the YAML, written in Python."""

import base64
import importlib
import io
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import FunctionType
from typing import Any, Self

from fulmen import api
from fulmen.errors import PASSED_ON, CodeError, ValidationFailed, text_of
from fulmen.topology.configuration.options import check_options
from fulmen.topology.problems import Problem, shown
from fulmen.topology.reading.documents import to_yaml
from fulmen.topology.reading.field_problems import parse, shape_problems
from fulmen.topology.reading.partial_document import components_of
from fulmen.topology.resource.base import spelling
from fulmen.topology.resource.spec import API_VERSION, KIND, Topology

Document = dict[str, Any]


class ComponentDeclarer:
    """Says more about a component. Every method returns the declarer: calls can be chained."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def set_num_tasks(self, num_tasks: int) -> Self:
        """Make this many tasks. Default: as many as executors."""
        self._document["numTasks"] = num_tasks
        return self

    def set_config(self, config: Mapping[str, Any]) -> Self:
        """Add values for this component to its configuration."""
        self._document["config"] = {**self._document.get("config", {}), **config}
        return self

    def set_tick_seconds(self, seconds: float) -> Self:
        """Send each task a tick tuple every so many seconds."""
        self._document["tickSeconds"] = seconds
        return self

    def set_event_time(self, field: str | Mapping[str, str], **more: Any) -> Self:
        """Declare the field with the event time of the component's tuples.

        Args:
            field: The field. If several streams have one: the field of each stream.
            more: The other fields of `eventTime`, such as lag="10s" or idle_timeout="1m".
        """
        where = {"field": field} if isinstance(field, str) else {"streams": dict(field)}
        self._document["eventTime"] = where | {spelling(k): v for k, v in more.items()}
        return self


class SpoutDeclarer(ComponentDeclarer):
    """Says more about a spout."""


class BoltDeclarer(ComponentDeclarer):
    """Says more about a bolt, and above all what it receives."""

    def set_keyed_state(self, backend: str) -> Self:
        """Keep `self.state` in "memory", or on "disk"."""
        self._document["keyedState"] = {"backend": backend}
        return self

    def set_blocking(self, blocking: bool = True) -> Self:
        """Run the bolt's executors as threads beside each other: it waits for something outside."""
        self._document["blocking"] = blocking
        return self

    def set_track_results(self, track_results: bool = True) -> Self:
        """Keep what the bolt emits by itself until it is acked, or not: then it is faster."""
        self._document["trackResults"] = track_results
        return self

    def shuffle_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a stream, divided evenly in random order."""
        return self._input(component, stream, type="shuffle")

    def fields_grouping(
        self, component: str, fields: Sequence[str], stream: str = "default"
    ) -> Self:
        """Receive a stream, with equal values of `fields` always in the same task."""
        return self._input(component, stream, type="fields", fields=_names(fields))

    def partial_key_grouping(
        self, component: str, fields: Sequence[str], stream: str = "default"
    ) -> Self:
        """Receive a stream, with equal values of `fields` in one of two tasks."""
        return self._input(component, stream, type="partial-key", fields=_names(fields))

    def all_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a stream whole in every task."""
        return self._input(component, stream, type="all")

    def global_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a stream whole in the task with the lowest id."""
        return self._input(component, stream, type="global")

    def none_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a stream, no matter how it is divided."""
        return self._input(component, stream, type="none")

    def direct_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a direct stream: its emitter names the task."""
        return self._input(component, stream, type="direct")

    def local_or_shuffle_grouping(self, component: str, stream: str = "default") -> Self:
        """Receive a stream, divided among the tasks in the emitter's worker, else among all."""
        return self._input(component, stream, type="local-or-shuffle")

    def custom_grouping(
        self,
        component: str,
        grouping: str | type[api.CustomStreamGrouping],
        stream: str = "default",
        config: Mapping[str, Any] | None = None,
    ) -> Self:
        """Receive a stream, divided by a class of the author's.

        Args:
            component: The spout or bolt to receive from.
            grouping: The class, or `module.Class`.
            stream: One that the component declares.
            config: Values for the class, in `self.config`.
        """
        path = grouping if isinstance(grouping, str) else _path_of(grouping, "custom grouping")
        more = {"config": dict(config)} if config else {}
        return self._input(component, stream, type="custom", **{"class": path}, **more)

    def where(self, condition: str) -> Self:
        """Receive only some tuples of the input before: those for which an expression is true."""
        return self._of_last("where", condition)

    def select(self, fields: Mapping[str, str]) -> Self:
        """Receive other fields from the input before: each is an expression over the stream's."""
        return self._of_last("select", dict(fields))

    def through(self, content: Document) -> Self:
        """Have a class make the rows of the input before: what `through` says in the file."""
        return self._of_last("through", content)

    def _of_last(self, name: str, value: Any) -> Self:
        if not (inputs := self._document.get("inputs")):
            message = f"{name} is said of an input, and there is none yet"
            raise ValidationFailed([Problem("", message, "Call shuffle_grouping, say, before.")])
        inputs[-1][name] = value
        return self

    def _input(self, component: str, stream: str, **grouping: Any) -> Self:
        content: Document = {"from": component, "stream": stream, "grouping": grouping}
        self._document.setdefault("inputs", []).append(content)
        return self


class TopologyBuilder:
    """Builds a topology with Storm's calls; `build` gives the model, `to_yaml` the file.

    The classes are named by module, as in YAML, so they must be importable where the topology runs:
    give `code`, such as `code={"folder": "."}`, or have them in an installed package.

        builder = TopologyBuilder(name="word-count", workers=2)
        builder.set_spout("sentences", SentenceSpout, 2)
        builder.set_bolt("split", SplitSentence, 2).shuffle_grouping("sentences")
        builder.set_bolt("count", WordCount, 2).fields_grouping("split", ["word"])
    """

    _section, _kind = "spouts", "spout"

    def __init__(self, name: str = "topology", **spec: Any) -> None:
        """Begin a topology.

        Args:
            name: The topology's name.
            spec: Fields of TopologySpec, in Python's spelling: `workers=2, max_spout_pending=1000`.
        """
        self._name = name
        self._spec = spec
        self._spouts: dict[str, Document] = {}
        self._bolts: dict[str, Document] = {}
        self._classes: dict[str, type] = {}

    def set_spout(self, id: str, spout: Any, parallelism: int = 1) -> SpoutDeclarer:
        """Add a spout.

        Args:
            id: Its name, unique among spouts and bolts.
            spout: A class, or an object; each task gets a copy of it.
            parallelism: The number of executors.

        Raises:
            ValidationFailed: The name is taken.
            CodeError: The class can't be imported by others, or the object can't be pickled.
        """
        document = self._new(id, self._kind, spout, parallelism)
        self._spouts[id] = document
        return SpoutDeclarer(document)

    def set_bolt(self, id: str, bolt: Any, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and declare its inputs on the result.

        Args:
            id: Its name, unique among spouts and bolts.
            bolt: A class, or an object; each task gets a copy of it.
            parallelism: The number of executors.

        Raises:
            ValidationFailed: The name is taken.
            CodeError: The class can't be imported by others, or the object can't be pickled.
        """
        document = self._new(id, "bolt", bolt, parallelism)
        self._bolts[id] = document
        return BoltDeclarer(document)

    def build(self) -> Topology:
        """The topology.

        Raises:
            ValidationFailed: Fields are wrong, or the `config` of a class with a `config_model`.
                What else takes several fields or the classes to see,
                `fulmen.topology.validation.check.check` finds.
        """
        unknown = [name for name in self._spec if name in ("spouts", "transactional", "bolts")]
        if unknown:
            message = f"{' and '.join(unknown)} can't be given as an argument"
            raise ValidationFailed([Problem("spec", message, "Use set_spout and set_bolt.")])
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self._name},
            "spec": {
                **{spelling(name): value for name, value in self._spec.items()},
                self._section: list(self._spouts.values()),
                "bolts": list(self._bolts.values()),
            },
        }
        problems = [*shape_problems(document), *self._option_problems(document)]
        if problems:
            raise ValidationFailed(problems)
        return parse(document)

    def _option_problems(self, document: Document) -> Iterator[Problem]:
        """Mistakes that the classes find in the `config` of their components."""
        for part in components_of(document):
            cls = self._classes.get(part.name or "")
            if cls is not None and part.model is not None and "config" not in part.wrong:
                found = check_options(cls, part.model.config, part.path, part.label).problems
                yield from (problem for problem in found if problem.severity == "error")

    def to_yaml(self) -> str:
        """The topology as YAML, without what is the default."""
        return to_yaml(self.build())

    def _new(self, id: str, kind: str, code: Any, parallelism: int) -> Document:
        label = f"{kind} {id!r}"
        if id in self._spouts or id in self._bolts:
            cure = "Choose another: spouts and bolts share one namespace."
            raise ValidationFailed([Problem("", f"{label}: the name is taken", cure)])
        cls = code if isinstance(code, type) else type(code)
        if not issubclass(cls, api.Component):
            message = f"{label} is {shown(code)}, but must be a {kind}'s class or an object of one"
            raise CodeError(message)
        self._classes[id] = cls
        document = {"name": id, "class": _path_of(cls, label), "parallelism": parallelism}
        if code is not cls and getattr(code, "__dict__", None):
            document["instance"] = _pickled(code, label)
        return document


def _names(fields: Sequence[str]) -> list[str]:
    return [fields] if isinstance(fields, str) else list(fields)


def _path_of(cls: type, label: str) -> str:
    """`module.Class`, by which another process can import a class."""
    if "<locals>" in cls.__qualname__:
        message = f"{label}: class {cls.__name__} is defined inside of a function"
        raise CodeError(message, "Define it at the top of a module, so that workers can import it.")
    return f"{_module_of(cls, label)}.{cls.__qualname__}"


def _module_of(definition: Any, label: str) -> str:
    """The module of a class or function; that of a program (`__main__`) is named after its file."""
    if definition.__module__ != "__main__":
        return str(definition.__module__)
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":  # python -m package.module
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    if file is not None and Path(file).stem.isidentifier():
        return Path(file).stem
    message = f"{label}: {definition.__name__} is defined in __main__, which workers can't import"
    raise CodeError(message, "Move it to a module: a file whose name is a Python name.")


class _PortablePickler(pickle.Pickler):
    """Names what `__main__` defines by its real module: workers have another `__main__`."""

    def __init__(self, file: io.BytesIO, label: str) -> None:
        super().__init__(file)
        self._label = label

    def reducer_override(self, obj: Any) -> Any:
        """Called for everything that is pickled."""
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            return _find, (_module_of(obj, self._label), obj.__qualname__)
        return NotImplemented


def _find(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(module))


def _pickled(instance: Any, label: str) -> str:
    file = io.BytesIO()
    try:
        _PortablePickler(file, label).dump(instance)
    except CodeError:
        raise
    except PASSED_ON:
        raise
    except BaseException as error:  # the author's objects
        cure = "Give the class, and make such fields in open or prepare."
        raise CodeError(f"{label}: the object can't be pickled ({text_of(error)})", cure) from error
    return base64.b64encode(file.getvalue()).decode()
