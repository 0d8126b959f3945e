"""Where an author's code called what runs now, and which module is being made."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_OWN = str(Path(__file__).parent.parent)


@dataclass(frozen=True)
class AuthorLine:
    """A line of an author's file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{_cell(self.file) or Path(self.file).name}:{self.line}"


def _cell(file: str) -> str:
    """What a notebook calls the cell of a file of its own; nothing if it is none."""
    notebook = sys.modules.get("IPython")
    shell = notebook and notebook.get_ipython()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = name_of(file) if name_of else None
    return f"cell {found[1]}" if found and found[0] == "Cell" else ""


def author() -> tuple[AuthorLine, FrameType]:
    """Where an author's code called what runs now."""
    for frame in _frames():
        if not frame.f_code.co_filename.startswith(_OWN):
            return AuthorLine(frame.f_code.co_filename, frame.f_lineno), frame
    raise AssertionError("nobody has called this")


def _frames(first: FrameType | None = None) -> Iterator[FrameType]:
    frame = first or sys._getframe(1)  # noqa: SLF001 (the only way to the caller)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def is_importing() -> bool:
    """Whether the author's module is being imported: then nothing runs, not even by `run`."""
    return building_module(author()[1])[1] is not None


def building_module(frame: FrameType) -> tuple[str, Mapping[str, Any] | None]:
    """The module that is being made, by its real name; its names, if an import makes it."""
    for one in _frames(frame):
        if one.f_code.co_name == "<module>":
            name = str(one.f_globals.get("__name__"))
            spec = one.f_globals.get("__spec__")
            if name == "__main__":
                file = one.f_globals.get("__file__")
                if spec is not None and spec.name != "__main__":  # python -m package.module
                    return str(spec.name).removesuffix(".__main__"), None
                return Path(file).stem if file else name, None
            if getattr(spec, "_initializing", False):
                return name, one.f_globals
    return str(frame.f_globals.get("__name__")), None
