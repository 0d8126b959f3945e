"""The files that patterns match."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator


def files_of(pattern: str, told: Callable[[OSError], None] | None = None) -> list[str]:
    """The files that a pattern with `*`, `?`, `[a-z]` and `**` matches, in the order of names.

    It is as `glob`, but `**` has each folder once, whatever symbolic links lead there; so links
    that lead in a circle end.

    Args:
        pattern: A path.
        told: Is told of each folder that can't be listed, and of what can't be looked at. What is
            not there is none.
    """
    told = told or _ignore
    first, *parts = pattern.split("/")
    begin = "/" if first == "" else ""
    parts = parts if begin else [first, *parts]
    return sorted({p for p in _matching(begin, parts, told) if _is_file(p, told)})


def folder_named(pattern: str) -> str | None:
    """The folder that a pattern without `*` names, if it does: no file, whatever is in it."""
    is_one = not glob.has_magic(pattern) and os.path.isdir(pattern)
    return pattern.rstrip("/") if is_one else None


def _ignore(error: OSError) -> None:
    pass


def _matching(folder: str, parts: list[str], told: Callable[[OSError], None]) -> Iterator[str]:
    """Yield the paths below a folder that match the parts of a pattern."""
    part, *rest = parts
    if part == "**":
        for each in _folders_below(folder, told):
            yield from _matching(each, rest or ["*"], told)
        return
    if not glob.has_magic(part):
        path = os.path.join(folder, part)
        yield from _matching(path, rest, told) if rest else [path]
        return
    entries = [e for e in _listed(folder, told) if part.startswith(".") or e.name[0] != "."]
    for name in fnmatch.filter([e.name for e in entries if not rest or _is_folder(e)], part):
        path = os.path.join(folder, name)
        yield from _matching(path, rest, told) if rest else [path]


def _folders_below(folder: str, told: Callable[[OSError], None]) -> Iterator[str]:
    """A folder and all below it, each once: first those that no symbolic link leads to."""
    seen: set[tuple[int, int]] = set()
    waiting, linked = deque([folder]), deque[str]()
    while waiting or linked:
        one = (waiting or linked).popleft()
        try:
            status = os.stat(one or os.curdir)
        except FileNotFoundError:
            continue
        except OSError as error:
            told(error)
            continue
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        yield one
        for entry in sorted(_listed(one, told), key=lambda entry: entry.name):
            if not entry.name.startswith(".") and _is_folder(entry):
                is_link = entry.is_symlink()
                (linked if is_link else waiting).append(os.path.join(one, entry.name))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link to itself
        return False


def _is_file(path: str, told: Callable[[OSError], None]) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:  # its folder may be listed, but not entered
        told(error)
        return False


def _listed(folder: str, told: Callable[[OSError], None]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder or os.curdir) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        told(error)
        return []
