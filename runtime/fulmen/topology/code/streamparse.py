"""Recognises classes that were written for streamparse, and says what it is called here.

What is said is what docs/migration.md says, in the words of the part at hand.
"""

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from fulmen import api
from fulmen.topology.problems import did_you_mean

_CALLED_HERE = {
    "initialize": ("open", ""),
    "process": ("execute", ""),
    "process_tick": ("execute", ", where tup.is_tick() is true"),
}
"""streamparse's names. `initialize` of a bolt is `prepare`."""
_BASES = (api.Spout, api.Bolt, api.BasicBolt)
_PACKAGES = ("streamparse", "pystorm")
GUIDE = "docs/migration.md"
PORT_CURE = (
    "It was written for streamparse: derive from fulmen.Spout or fulmen.BasicBolt. See"
    f" 'streamparse' in {GUIDE}."
)


def import_cure(missing: str | None) -> str:
    """The cure for a module that can't be imported because it imports `missing`."""
    if not missing:
        return ""
    top = missing.partition(".")[0]
    if top in _PACKAGES:
        return PORT_CURE
    return (
        f"If {top!r} is of a package, install it; for a cluster, name the package in"
        " requirements.txt: fulmen manifest FILE --wheels takes it along."
    )


def is_streamparse(cls: type) -> bool:
    """Whether a class is derived from one of streamparse's."""
    return any(base.__module__.partition(".")[0] in _PACKAGES for base in cls.__mro__)


def abstract_cure(cls: type) -> str:
    """The cure for a class that has its abstract methods under other names."""
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    names = _streamparse_names(cls)
    own = [name for name in vars(cls) if not name.startswith("_") and name not in missing]
    for method in missing:
        for name, ours in names.items():
            if name in own and ours.startswith(f"{method}("):
                return f"{name} is streamparse's name: write def {ours} ({GUIDE})."
        if cure := did_you_mean(method, [name for name in own if callable(vars(cls)[name])]):
            found = cure.removeprefix("Did you mean ").removesuffix("?")
            return f"Call {found} {method}, as it is called here."
    return ""


def leftovers(instance: Any) -> Iterator[tuple[str, str]]:
    """Streamparse's names in a class of Fulmen's: (message, cure)."""
    cls = type(instance)
    who = f"{cls.__module__}.{cls.__qualname__}"
    for name, ours in _streamparse_names(cls).items():
        method = ours.partition("(")[0]
        base = next(b for b in _BASES if issubclass(cls, b))
        if name in vars(cls) and getattr(cls, method, None) is getattr(base, method, None):
            yield f"{who}.{name} is never called: it is streamparse's", f"Write def {ours}."


def _streamparse_names(cls: type) -> Mapping[str, str]:
    """Streamparse's names that a class may have -> Fulmen's."""
    base = next((base for base in _BASES if issubclass(cls, base)), object)
    found = {}
    for name, (method, more) in _CALLED_HERE.items():
        ours = "prepare" if method == "open" and base is not api.Spout else method
        if (given := getattr(base, ours, None)) is not None:
            found[name] = f"{ours}({', '.join(signature(given).parameters)}){more}"
    return found
