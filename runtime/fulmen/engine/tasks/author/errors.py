"""The report of an exception from an author's code: its text, its place, its service.

What is too long is cut, what is secret is masked, and frames of the engine are left out.
"""

from __future__ import annotations

import traceback
from types import CodeType

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.causes import causes_of
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.errors import FulmenError, text_of
from fulmen.secrets import masked
from fulmen.visible import visible_lines

LONGEST_MESSAGE = 1000
LONGEST_TRACEBACK = 10_000
_OWN = {"fulmen", "contextlib"}
"""Packages of which an author knows no module: one makes `with` of Fulmen's functions."""
_LED_TO = "\nThe exception above led to the following one:\n\n"
_MOST_FRAMES = 100
_known_frames: dict[tuple[tuple[CodeType, str, int], ...], str] = {}  # rows fail at the same place


def shortened(text: str, most: int) -> str:
    """The text, without its middle if it is long, and as it can be written in UTF-8."""
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def service_of(error: BaseException | str) -> str:
    """The service that is away, without secrets; "" if the error does not name one."""
    return masked(text_of(error.service)) if isinstance(error, ServiceUnavailable) else ""


class ComponentFailed(FulmenError):
    """An author's code raised where the topology can't go on."""

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report)
        self.report = report

    def __str__(self) -> str:
        return f"{self.report.component}, task {self.report.task}: {self.report.message}"


class Unavailable(ComponentFailed):
    """A service that an author's `open` or `prepare` connects to is away, and may be back later."""


MISTAKES = (
    *(FulmenError, TypeError, ValueError, LookupError, AttributeError, NameError, ImportError),
    *(FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError),
)
"""Errors of `open` and `prepare` that show a mistake here, whoever raised them."""


def may_pass(error: BaseException) -> bool:
    """Whether an exception of `open` or `prepare` may be about a service that is away for now.

    Clients of services have classes of their own for that, of no common base. So it is all but
    Python's own exceptions, of which only OSError and its kinds (ConnectionError, TimeoutError)
    are about services.
    """
    if isinstance(error, MISTAKES) or not isinstance(error, Exception):
        return False
    return isinstance(error, OSError) or type(error).__module__ != "builtins"


def is_outside(error: BaseException) -> bool:
    """Whether `open` or `prepare` has refused what is outside: a table, a right, a file."""
    return isinstance(error, FulmenError | OSError) and not isinstance(error, StoreMismatch)


def author_traceback(error: BaseException) -> str:
    """The part of the traceback that is about the author's code: without the engine's frames.

    Empty, if no author's code is part of it and the error's own text says what is wrong and what to
    do: then a connector has refused what the topology's file says.

    Secrets are masked before anything is cut off: half of one could not be found any more.
    """
    if isinstance(error, FulmenError) and _is_own(error):
        return ""
    text = _LED_TO.join(map(_stack_of, (*causes_of(error), error)))
    return visible_lines(masked(text))


def _stack_of(error: BaseException) -> str:
    head = "Traceback (most recent call last):\n" if error.__traceback__ else ""
    return "".join([head, _frames_of(error), *traceback.format_exception_only(error)])


def _is_own(error: BaseException) -> bool:
    """Whether an error comes from Fulmen's modules, and only they were on the way to it."""
    frames = traceback.walk_tb(error.__traceback__)
    modules = {frame.f_globals.get("__name__", "") for frame, _ in frames}
    return {name.partition(".")[0] for name in modules} <= _OWN


def _frames_of(error: BaseException) -> str:
    way: list[tuple[CodeType, str, int]] = []  # equal code may be in several files
    at = error.__traceback__
    while at is not None:
        way.append((code := at.tb_frame.f_code, code.co_filename, at.tb_lasti))
        at = at.tb_next
    text = _known_frames.get(key := tuple(way))
    if text is None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "/fulmen/engine/" not in f.filename.replace("\\", "/")]
        text = "".join(traceback.format_list(own))
        if len(_known_frames) >= _MOST_FRAMES:
            _known_frames.clear()
        _known_frames[key] = text
    return text
