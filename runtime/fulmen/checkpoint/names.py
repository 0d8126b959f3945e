"""The names of the objects of a checkpoint."""

from __future__ import annotations

import hashlib
import re

COMMITS = "commits/"
STATE = "state/"
CALLS = "calls/"
"""Notes of workers about calls that last: no part of any commit."""
_LONGEST_NAME = 180  # of the part after number and tag; file systems allow 255 for all of it


def commit_key(number: int) -> str:
    """The key of a commit object."""
    return f"{COMMITS}{number:020d}"


def state_file_name(number: int, tag: str, task_key: str, journal: str) -> str:
    """The key of a state file: unique for these four, and sorted by the number first.

    Args:
        number: The commit that it is written for.
        tag: The tag of the attempt: letters and digits.
        task_key: Any text.
        journal: Any text.
    """
    if not re.fullmatch(r"[A-Za-z0-9]{1,32}", tag):
        raise ValueError(f"tag {tag!r} must be 1 to 32 letters and digits")
    name = f"{_escaped(task_key)}.{_escaped(journal)}"
    if len(name) > _LONGEST_NAME:
        # "+" is in no escaped name, so this can't be another one's.
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        name = f"{name[: _LONGEST_NAME - 33]}+{digest}"
    return f"{state_prefix(number, tag)}{name}"


def number_in(key: str) -> int | None:
    """The commit that a commit object is, or that a state file was written for; else None."""
    match = re.fullmatch(r"commits/(\d{20})|state/(\d{20})\..+", key)
    return int(match[1] or match[2]) if match else None


def state_prefix(number: int, tag: str) -> str:
    """What the keys of all state files of an attempt begin with."""
    return f"{STATE}{number:020d}.{tag}."


def _escaped(text: str) -> str:
    """Letters, digits, `-` and `_` as they are, other characters as `=` and their bytes in hex."""
    return re.sub(
        r"[^A-Za-z0-9_-]", lambda m: "".join(f"={byte:02X}" for byte in m[0].encode()), text
    )
