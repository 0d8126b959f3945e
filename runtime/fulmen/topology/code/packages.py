"""Packages of others that go along with a project's code, beside those that the image has.

An archive has them as they are installed, in a folder of their own. What Fulmen itself runs on is
the image's, always: two versions of one package in a process would be half of each.
"""

import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from fulmen.errors import CodeError

FOLDER: Final = ".packages"
"""The packages' folder in an archive. No code can be there: hidden files are left out."""
MADE_FOR_FILE: Final = "made-for.json"
_LIST: Final = Path(__file__).with_name("image_packages.txt")
_AGAIN: Final = "Make it again with fulmen manifest FILE --wheels"


@dataclass(frozen=True)
class MadeFor:
    """The requirements of packages for being imported.

    Attributes:
        python: The version of Python that they were compiled for, such as `3.11`; empty: any.
        machine: The processor that they were compiled for, such as `x86_64`; empty: any.
        versions: The version of each package, by its normalized name.
    """

    python: str = ""
    machine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The form in an archive. Equal values are equal text."""
        return json.dumps(asdict(self), sort_keys=True)


def normalized(name: str) -> str:
    """The name of a package as an index compares it: `Foo.Bar_x` is `foo-bar-x`."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def image_packages() -> Mapping[str, str]:
    """The versions of the packages that the image of this version has, by normalized name."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    pinned = (line.split("==") for line in lines if not line.startswith("#"))
    return {normalized(name): version for name, version in pinned}


def import_path(folder: Path) -> list[Path]:
    """The folders that the code in a folder is imported from, in this order."""
    packages = folder / FOLDER
    return [folder, packages] if packages.is_dir() else [folder]


def fits_here(made_for: MadeFor) -> bool:
    """Whether this process can import packages."""
    is_platform = sys.platform == "linux" and made_for.machine == platform.machine()
    return made_for.python in ("", _python()) and (made_for.machine == "" or is_platform)


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def check_packages(folder: Path) -> None:
    """Check that the packages that came with the code can be imported here.

    Args:
        folder: The folder of the code. Its packages must not be on the import path yet.

    Raises:
        CodeError: They are for another Python or processor, or another version of a package that
            Fulmen needs.
    """
    file = folder / FOLDER / MADE_FOR_FILE
    if not file.exists():
        return
    try:
        made_for = MadeFor(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise CodeError(f"{FOLDER}/{MADE_FOR_FILE} can't be read: {error}", f"{_AGAIN}.") from error
    python = _python()
    if made_for.python not in ("", python):
        raise CodeError(
            f"the packages in the archive are compiled for Python {made_for.python}, but the image"
            f" has {python}",
            f"{_AGAIN} --python-version {python}.",
        )
    machine = platform.machine()
    if made_for.machine not in ("", machine):
        raise CodeError(
            f"the packages in the archive are compiled for {made_for.machine}, but the node is"
            f" {machine}",
            f"{_AGAIN} --platform, or have the pods run on other nodes by spec.driver.podTemplate"
            " and spec.worker.podTemplate.",
        )
    _refuse_others(made_for.versions)


def _refuse_others(versions: Mapping[str, str]) -> None:
    """Refuse other versions of packages that Fulmen needs."""
    needed = {"fulmen", *image_packages()} & versions.keys()
    if not needed:
        return
    installed = {normalized(found.name): found.version for found in distributions()}
    wrong = [
        f"{name} {versions[name]} (the image: {installed[name]})"
        for name in sorted(needed)
        if installed.get(name, versions[name]) != versions[name]
    ]
    if wrong:
        raise CodeError(
            f"the archive has other versions of packages that Fulmen runs on: {', '.join(wrong)}",
            "Ask for the image's versions in the requirements, or leave them out, and make the"
            " archive again with the fulmen of the image's version.",
        )
