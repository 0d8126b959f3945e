"""The author's classes: from where they are kept to an instance of one."""

import base64
import binascii
import importlib
import inspect
import os
import pickle
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, ClassVar, NoReturn

from fulmen import api
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, StreamTime
from fulmen.api.input_function import InputFunction
from fulmen.api.times.event_time import LATE, LATE_FIELDS
from fulmen.errors import PASSED_ON, CodeError, error_text
from fulmen.own_files import PrivateFolder
from fulmen.topology.code.packages import FOLDER, import_path
from fulmen.topology.code.streamparse import abstract_cure, import_cure
from fulmen.topology.problems import did_you_mean, meant, there_are
from fulmen.topology.resource.spec import ComponentSpec, Grouping, SpoutSpec, Through
from fulmen.topology.resource.spec.pods import Code


class CodeFolder:
    """The folder that a topology's modules are imported from, for as long as it is open.

    Closing it forgets the modules, so that those of another topology may have the same names, and
    removes the folder if it was made for inline files. A process that runs one topology leaves it
    open. Modules that were there before, and those of a virtual environment inside of the folder,
    are not forgotten, nor are any while the same folder is open a second time.

    Attributes:
        path: The folder; None if all classes come from installed packages.
    """

    _open: ClassVar[Counter[Path | None]] = Counter()

    def __init__(self, path: Path | None, private: PrivateFolder | None = None) -> None:
        self.path = path.resolve() if path else None
        self._private = private
        self._put = False
        self._before: frozenset[str] = frozenset()

    @classmethod
    def of(cls, code: Code | None, base: Path) -> "CodeFolder":
        """Make the folder of `spec.code`; inline files are written to a new temporary one.

        Args:
            code: The topology's `spec.code`.
            base: The folder of the topology's file, to which `code.folder` is relative.

        Raises:
            CodeError: `code.folder` is not a folder.
        """
        if code is not None and code.files:
            private = PrivateFolder("code")
            for name, text in code.files.items():
                (private.path / name).write_text(text, encoding="utf-8")
            return cls(private.path, private)
        return cls.folder_of(code, base)

    @classmethod
    def folder_of(cls, code: Code | None, base: Path) -> "CodeFolder":
        """The folder that `spec.code.folder` means. Takes and raises what `of` does."""
        if code is None or code.folder is None:
            return cls(None)
        folder = base / code.folder
        if not folder.is_dir():
            raise CodeError(f"the folder {str(folder)!r} does not exist")
        return cls(folder)

    def __enter__(self) -> "CodeFolder":
        self._before = frozenset(sys.modules)
        self._put = _put_on_path(self.path)
        self._open[self.path] += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the folder off the path, and forget its modules."""
        self._open[self.path] -= 1
        if self.path is None or self._open[self.path] > 0:
            return
        for path in map(str, import_path(self.path) if self._put else ()):
            if path in sys.path:
                sys.path.remove(path)
        within = [p for p in map(Path, filter(None, sys.path)) if self.path in p.parents]
        within.append(self.path / FOLDER)
        for name, module in list(sys.modules.items()):
            installed = any(_is_in(module, path) for path in within)
            if name not in self._before and not installed and _is_in(module, self.path):
                del sys.modules[name]
        if self._private is not None:
            self._private.close()


def load_class(name: str, folder: Path | None = None) -> Any:
    """Import the class `module.Class` from `folder` or the installed packages.

    Args:
        name: Module and class; a class inside of another is `module.Outer.Inner`.
        folder: Put on `sys.path` first, and left there.

    Raises:
        CodeError: The module can't be found or imported, or has no such class.
    """
    found = load_named(name, folder)
    if not isinstance(found, type):
        raise CodeError(f"{name!r} is not a class but of the type {type(found).__name__}")
    return found


def load_named(name: str, folder: Path | None = None) -> Any:
    """Import what a module has under a name. Takes and raises what `load_class` does."""
    _put_on_path(folder)
    module, attributes = _import(name, folder)
    found: Any = module
    for depth, attribute in enumerate(attributes):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            path = ".".join([module.__name__, *attributes[:depth]])
            _refuse_attribute(found, path, attribute, attributes[depth + 1 :])
    return found


def create(component: ComponentSpec, folder: Path | None = None) -> Any:
    """Create an instance of a spout or bolt, as each task has one.

    Raises:
        CodeError: Its class can't be loaded or instantiated.
    """
    if component.instance is not None:
        _put_on_path(folder)
        return unpickle(component.instance)
    return instantiate(load_class(component.class_, folder), component.class_, folder)


def create_grouping(grouping: Grouping, folder: Path | None = None) -> api.CustomStreamGrouping:
    """Create an instance of a custom grouping's class, with its `config` set.

    Raises:
        CodeError: Its class can't be loaded or instantiated.
    """
    if grouping.class_ is None:
        raise CodeError(f"a {grouping.type} grouping has no class")
    instance = instantiate(load_class(grouping.class_, folder), grouping.class_, folder)
    if not isinstance(instance, api.CustomStreamGrouping):
        raise CodeError(f"{grouping.class_} is not derived from fulmen.CustomStreamGrouping")
    instance.config = dict(grouping.config)
    return instance


def create_input_function(through: Through, folder: Path | None = None) -> InputFunction:
    """Create an instance of the class of an input's `through`, with its `config` set.

    Raises:
        CodeError: Its class can't be loaded or instantiated.
    """
    instance = instantiate(load_class(through.class_, folder), through.class_, folder)
    if not isinstance(instance, InputFunction):
        cure = "Only streams in Python write through: the class is theirs."
        raise CodeError(f"{through.class_} is not derived from InputFunction", cure)
    instance.config = dict(through.config)
    return instance


def instantiate(cls: Any, name: str, folder: Path | None = None) -> Any:
    """An instance of a class that is made without arguments.

    Raises:
        CodeError: The class is abstract, needs arguments, or raised something.
    """
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        message = f"{name} is abstract: it does not define {_listed(missing)}"
        raise CodeError(message, abstract_cure(cls))
    needed = _needed_arguments(cls)
    if needed:
        raise CodeError(
            f"{name}.__init__ needs {_listed(needed)}, but an instance is made without arguments",
            "Take such values from the configuration in open or prepare, or give them defaults.",
        )
    try:
        return cls()
    except PASSED_ON:
        raise
    except BaseException as error:  # the author's code
        raise CodeError(f"{name}() raised {explain(error, folder)}") from error


def streams_of(component: ComponentSpec, code: Any, options: Any = None) -> dict[str, api.Stream]:
    """The streams of a spout or bolt, including those for dead letters and tuples without a time.

    Args:
        component: Its spec.
        code: Its class, or an instance of it.
        options: Its validated `config_model`; None if it has none.

    Raises:
        DeclarationError: The class's declaration can't be understood.
    """
    streams = api.output_streams(code, options)
    if isinstance(component, SpoutSpec):
        streams[DEAD_LETTERS] = api.Stream(DEAD_LETTER_FIELDS)
    if (declared := component.event_time) is not None:
        streams[LATE] = api.Stream(LATE_FIELDS)
        for name, field in declared.timed.items():
            if name in streams:
                time = StreamTime(field, declared.unit, declared.timezone)
                streams[name] = replace(streams[name], time=time)
    return streams


def unpickle(instance: str) -> Any:
    """The object in a component's field `instance`.

    Raises:
        CodeError: It is not base64, or unpickling raised something.
    """
    try:
        return pickle.loads(base64.b64decode(instance, validate=True))
    except binascii.Error as error:
        raise CodeError(f"instance is not base64 ({error})", _REBUILD) from error
    except PASSED_ON:
        raise
    except BaseException as error:  # the author's code
        message = f"instance can't be unpickled ({error_text(error)})"
        raise CodeError(message, _REBUILD) from error


_REBUILD = "Write the file again with TopologyBuilder, or remove the field."


def explain(error: BaseException, folder: Path | None) -> str:
    """An exception from the author's code in one line: type, text, file and line."""
    text = error_text(error)
    if isinstance(error, SyntaxError):
        place = f"{_file(error.filename, folder)}, line {error.lineno}"
        return f"{type(error).__name__}: {error.msg} ({place})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if folder and Path(f.filename).is_relative_to(folder.resolve())]
    others = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    for frame in (own or others)[-1:]:
        return f"{text} ({_file(frame.filename, folder)}, line {frame.lineno})"
    return text


def _file(name: str | None, folder: Path | None) -> str:
    path = Path(name or "?")
    if folder and path.is_relative_to(folder.resolve()):
        return str(path.relative_to(folder.resolve()))
    return str(path)


def _put_on_path(folder: Path | None) -> bool:
    """Have modules imported from a folder. Returns whether they were not before."""
    if folder is None:
        return False
    new = [str(path) for path in import_path(folder.resolve()) if str(path) not in sys.path]
    if new:
        sys.path[:0] = new
        importlib.invalidate_caches()
    return str(folder.resolve()) in new


def _is_in(module: ModuleType | None, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and file.startswith(f"{folder}{os.sep}")


def _import(name: str, folder: Path | None) -> tuple[ModuleType, list[str]]:
    """The longest part of `name` that is a module, and what follows it."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module_name = ".".join(parts[:count])
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                message = _import_failed(module_name, error, folder)
                raise CodeError(message, import_cure(error.name)) from error
        except PASSED_ON:
            raise
        except BaseException as error:
            raise CodeError(_import_failed(module_name, error, folder)) from error
        else:
            _refuse_shadowed(module, parts[0], folder)
            return module, parts[count:]
    own = sorted({path.stem for path in folder.glob("*.py")}) if folder else []
    place = f"in {_listed([f'{stem}.py' for stem in own])} or " if own else ""
    message = f"there is no module {parts[0]!r} {place}among the installed packages"
    raise CodeError(message, did_you_mean(parts[0], own))


def _import_failed(module: str, error: BaseException, folder: Path | None) -> str:
    return f"module {module!r} can't be imported: {explain(error, folder)}"


def _refuse_shadowed(module: ModuleType, top: str, folder: Path | None) -> None:
    """An author's file that is named like a module that was imported before can't be reached."""
    if folder is None or _is_in(module, folder.resolve()):
        return
    for own, kind in ((f"{top}.py", "file"), (f"{top}/__init__.py", "folder")):
        if (folder / own).exists():
            raise CodeError(
                f"{own} has the name of a module of Python's own or of an installed package, which"
                " is imported instead of it",
                f"Rename the {kind}.",
            )


def _refuse_attribute(owner: Any, path: str, attribute: str, within: Sequence[str]) -> NoReturn:
    classes = {name: value for name, value in vars(owner).items() if inspect.isclass(value)}
    own = [name for name, value in classes.items() if value.__module__ == path]
    modules = [module.name for module in iter_modules(getattr(owner, "__path__", ()))]
    first, second = (modules, classes) if within else (classes, modules)
    known = meant(attribute, first) or meant(attribute, second)
    cure = did_you_mean(attribute, [known]) if known else there_are(own) if own else ""
    whole = ".".join([path, known, *within]) if known and (within or known in classes) else ""
    raise CodeError(f"{path!r} has no class {attribute!r}", cure, whole)


def _needed_arguments(cls: Any) -> list[str]:
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):  # classes in C have none
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variable]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
