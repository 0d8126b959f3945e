"""Errors of a task: calls of the author's code, and the reports of what they raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeVar

from fulmen.api.components.returned import refuse_unrun
from fulmen.api.components.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.api.marks import StoreMismatch
from fulmen.api.times.event_time import LATE
from fulmen.causes import is_plain
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.callbacks.forks import end_child
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.tasks.author.errors import (
    LONGEST_MESSAGE,
    LONGEST_TRACEBACK,
    ComponentFailed,
    Unavailable,
    author_traceback,
    service_of,
    shortened,
)
from fulmen.errors import PASSED_ON, Denied, FulmenError, Unreachable, error_text, text_of

T = TypeVar("T")
R = TypeVar("R")
ERRORS_TOLD = 5
"""Errors of each task in each batch."""
REASONS_KEPT = 1000
RESTORING = "restoring "
"""How begins what reads an author's values in a checkpoint."""
_SHOWN_BY = ". `fulmen state get CHECKPOINT {} --kind unreadable` shows what can't be read"
_PLAIN_STR = (BaseException.__str__, KeyError.__str__)
"""Methods that give only the text of an error that has one."""


class TaskErrors:
    """The errors of one task in a batch.

    Attributes:
        crashes: Whether the topology has `onError: crash`.
        all: Those that are told, and warnings.
    """

    def __init__(self, component: str, task: int, *, crashes: bool) -> None:
        self._component, self._task = component, task
        self.crashes = crashes
        self._warned: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Forget all errors: a batch begins, or an attempt came to nothing."""
        self.all: list[ErrorReport] = []
        self._told = self._more = 0
        self._reasons: dict[tuple[type, str, str], str] = {}  # rows fail for the same reason

    # Calls

    def called(
        self, what: str, call: Callable[[], T], otherwise: Callable[[BaseException], R]
    ) -> T | R:
        """Call the author's code. What it raises is for `otherwise`."""
        calling = CALLS.begin(self._task, what)
        returned: T | R
        try:
            returned = call()
            if returned is not None:
                refuse_unrun(returned)
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (author's code)
            returned = otherwise(e)
        finally:
            end_child()
        CALLS.end(calling)
        return returned

    def guarded(self, what: str, call: Callable[[], T]) -> T:
        """Call the author's code where the topology can't go on if it raises.

        Raises:
            Unavailable: It did, as what it needs is away for now.
            Unreachable, Denied: The checkpoint is away, which is read for state on disk.
            ComponentFailed: It did.
        """

        def fail(error: BaseException) -> NoReturn:
            if isinstance(error, Unreachable | Denied):
                raise error
            if isinstance(error, ServiceUnavailable) and not self.crashes:
                raise Unavailable(self.report(error, what=what)) from error
            raise ComponentFailed(self.report(error, fatal=True, what=what)) from error

        return self.called(what, call, fail)

    # Reports

    def report(
        self, error: BaseException | str, fatal: bool = False, what: str = ""
    ) -> ErrorReport:
        """Note an error of this task. Of many in a batch the first are told, the others counted."""
        message, stack = self._message_of(error, what), ""
        is_told = fatal or self._told < ERRORS_TOLD
        if isinstance(error, BaseException) and is_told and not isinstance(error, StoreMismatch):
            stack = shortened(author_traceback(error), LONGEST_TRACEBACK)
        service = service_of(error)
        report = ErrorReport(self._component, self._task, message, stack, fatal, service=service)
        if is_told:
            self.all.append(report)
            self._told += 1
        else:
            self._more += 1
        return report

    def report_or_crash(
        self, error: BaseException, what: str, *, fatal: bool = False
    ) -> ErrorReport:
        """Note an error after which the topology goes on, if it may.

        Raises:
            ComponentFailed: `fatal`, or a store does not fit, or the topology has `onError: crash`.
        """
        fatal = fatal or self.crashes or isinstance(error, StoreMismatch)
        report = self.report(error, fatal, what)
        if fatal:
            raise ComponentFailed(report) from error
        return report

    def warn(self, text: str) -> None:
        """Note what is no error."""
        self.all.append(ErrorReport(self._component, self._task, text, is_warning=True))

    def warn_of(self, outbox: Outbox) -> None:
        """Say once that tuples have no usable time, or that no bolt gets what is malformed."""
        if (why := outbox.untimed.get(self._task)) is not None:
            self._warn_once(LATE, f"a tuple is on the stream {LATE!r} instead of its own, as {why}")
        if (first := outbox.unread.get(self._task)) is not None:
            reason, position = first
            what = f"a message can't be read, at {position}: {reason}. It is on the stream"
            self._warn_once(ERRORS_STREAM, f"{what} {ERRORS_STREAM!r}, which no bolt reads")

    def _warn_once(self, stream: str, text: str) -> None:
        if stream not in self._warned:
            self._warned.add(stream)
            self.warn(f"{text}. More of them are counted, and not told")

    def failure(self, error: BaseException, what: str) -> str:
        """Note an error after which the topology goes on; gives why its tuple fails."""
        if self._told < ERRORS_TOLD:
            return self._why(self.report(error, what=what).message)
        self._more += 1
        why, kind = self._why(self._message_of(error, what)), type(error)
        if len(error.args) == 1 and kind.__str__ in _PLAIN_STR and is_plain(error):
            text = error.args[0]
            if type(text) is str and len(text) <= LONGEST_MESSAGE:
                if len(self._reasons) >= REASONS_KEPT:
                    self._reasons.clear()
                self._reasons[kind, text, what] = why
        return why

    def known_failure(self, error: BaseException, what: str) -> str | None:
        """The text from `failure`, if it has noted such an error in this batch. Cheap."""
        arguments = error.args
        if len(arguments) != 1 or type(text := arguments[0]) is not str or not is_plain(error):
            return None
        why = self._reasons.get((type(error), text, what))
        if why is not None:
            self._more += 1
        return why

    def _why(self, message: str) -> str:
        return f"bolt {self._component!r}: {message}"

    def _message_of(self, error: BaseException | str, what: str) -> str:
        message, cure = "", ""
        if not isinstance(error, BaseException) or isinstance(error, FulmenError):
            message = text_of(error)
        else:
            message = error_text(error)
            if what.startswith(RESTORING) and not isinstance(error, ServiceUnavailable):
                cure = _SHOWN_BY.format(self._component)
        return shortened(f"{what}: {message}" if what else message, LONGEST_MESSAGE) + cure

    def tell(self, summary: Summary) -> None:
        """Put into a summary what went wrong, and forget it."""
        if self._more:  # they count with the last one that is told
            at = max(i for i, error in enumerate(self.all) if not error.is_warning)
            self.all[at] = replace(self.all[at], more=self._more)
        summary.errors += self.all
        self.forget()
