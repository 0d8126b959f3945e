"""Every error that Fulmen raises on purpose.

A class of its own exists only where somebody reacts differently. One that only a single room knows
is in that room, and here with its file.

FulmenError
    DeclarationError        a component declares its output streams wrongly
    StreamError             an emit that the component's declaration does not allow
    CollectorError          a collector used outside of a callback
    MetricError             a metric of an author's that can't be
    EventTimeError          a value that is no time, or a timer that can't be set
        BeyondDatesError    a time that no datetime in UTC can be
    GroupingError           no task can be chosen for a tuple
    StateError              what a component holds can't be kept in the checkpoint
        NotReadable         it could be written, and not be read again
    CodeError               a class of the author's can't be imported, or an instance of it made
    ComponentFailed         an author's code raised where the topology can't go on
                            (engine/tasks/author/errors.py)
        Unavailable         it can't connect to what it needs, and may do so later
                            (engine/tasks/author/errors.py)
    ValidationFailed        a topology's document has mistakes: all of them, not only the first
    BadInput                the user's file or option can't be used (cli/bad_input.py)
        Replaced            a topology was deleted while a command looked after it
                            (cli/cluster/kubectl.py)
    CheckpointError         the checkpoint can't be read or written
        AlreadyExists       a put found its key taken
        NotFound            a get found nothing
        Unreachable         the store does not answer: the same call may be repeated
        Denied              the store refuses for lack of a right: who knows that it was there waits
        Fenced              another driver has taken over: this one must stop
        CheckpointMismatch  another topology's, or of other tasks: trying again is no use
        CheckpointLost      it is empty, but was not: the user decides whether to start anew
    ConditionError          what a tap is to show can't be read (engine/taps/condition.py)
    LettersRefused          nothing can be done with dead letters now
                            (engine/driver/taps/letter_requests.py)
    TapRefused              a tap can't be opened (engine/driver/taps/wanted_tap.py)
    JobFailed               a batch's Spark job ended without a result: recover, then run it again
        JobTimedOut         it took too long: one of its tuples may hang
    StoreError              a table or map can't be read or written (services/errors.py)
        StoreUnavailable    it is away, locked or full: the transaction is tried again
                            (services/errors.py)
        StoreRefused        it will never take it: a right is missing, or it is somebody else's
                            (services/errors.py)
        StaleAttempt        a later attempt was written (transactional/errors.py)
    StoreMismatch           a store and the checkpoint do not fit: one was set back (api/marks.py)
    BadPlace                files can't be read from a place, or written to it
                            (connectors/files/places/local.py)
    TopologyFailed          a topology can't go on
    SparkLost               Spark itself has ended: the driver has to be started anew
    NotDrained              a test's topology goes on and on (testing/running.py)
    StepFailed              a function of a step raised (streams/bolts/loops.py)
    ApiError                the API server refused a driver's request, or can't be reached
                            (kube/driver/api.py)
    _NotFound               the API server does not have what kubectl asked for
                            (cli/cluster/kubectl.py)
    _Conflict               an object is not what a request takes it for (cli/cluster/kubectl.py)

`Interruption` is none: see interruptions.py.

What authors raise themselves, `FailedException`, is in api/components/failures.py.
"""

import errno
import os
from collections.abc import Callable, Sequence

from fulmen.causes import causes_of
from fulmen.interruptions import Interruption
from fulmen.secrets import masked


def install(extra: str) -> str:
    """The command that installs an extra of Fulmen's, for the end of a sentence.

    No package index has Fulmen: it is installed from its source, and a name that others could take
    must not be named.
    """
    return f"pip install 'CHECKOUT[{extra}]', where CHECKOUT is the folder of Fulmen's source"


PASSED_ON = (KeyboardInterrupt, Interruption)
"""What nobody takes for an error of the author's code, but all else that it raises: not all of it
is an Exception, as SystemExit, asyncio's CancelledError and a panic of an extension in Rust."""


class _Ignored:
    """Ignores what an author's code raises in a block."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and not issubclass(kind, PASSED_ON)


IGNORED = _Ignored()
"""`with IGNORED:` goes on behind the block, whatever the author's code in it has raised."""


class FulmenError(Exception):
    """Base of all errors of Fulmen's own. Its text is complete: who, where, what, and the cure."""


class DeclarationError(FulmenError):
    """A component's `outputs` or `declare_output_fields` can't be understood."""


class StreamError(FulmenError):
    """An emit on an undeclared stream, in the wrong way for it, or with too many or few values."""


class CollectorError(FulmenError):
    """An emit, ack or fail outside of the callbacks in which it is allowed."""


class MetricError(FulmenError):
    """A metric of an author's with a wrong name or value, or one too many."""


class EventTimeError(FulmenError):
    """A value is no event time, or a timer can't be set."""


class BeyondDatesError(EventTimeError):
    """A value is a time that no datetime in UTC can be."""


class CodeError(FulmenError):
    """A class that a topology names can't be imported, or an instance of it can't be made.

    Attributes:
        message: What is wrong, without a full stop.
        cure: What to do about it, a sentence or nothing.
        meant: The name of the class that is meant, if there is one that is much alike.
    """

    def __init__(self, message: str, cure: str = "", meant: str = "") -> None:
        super().__init__(message, cure, meant)
        self.message = message
        self.cure = cure
        self.meant = meant

    def __str__(self) -> str:
        return f"{self.message}. {self.cure}".rstrip()


class ValidationFailed(FulmenError):
    """A topology's document has mistakes.

    Attributes:
        problems: All that was found (`fulmen.topology.problems.Problem`), in the document's order.
    """

    def __init__(self, problems: Sequence[object]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        lines = [f"{len(self.problems)} problems:"]
        lines += [f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1)]
        return "\n".join(lines)


class StateError(FulmenError):
    """What a component holds can't be kept in the checkpoint. Its text says what, and the cure."""


class NotReadable(StateError):
    """A value can be pickled, and what that gives can't be unpickled."""


class GroupingError(FulmenError):
    """No task can be chosen for a tuple: a value has no stable hash, or a custom grouping fails.

    Attributes:
        reason: What is wrong, and the cure.
        emission: Which of the emissions of the chunk it is about, if known.
        field: The number of the field with that value, if it is about one.
    """

    def __init__(self, reason: str, emission: int | None = None, field: int | None = None) -> None:
        super().__init__(reason, emission, field)
        self.reason = reason
        self.emission = emission
        self.field = field

    def __str__(self) -> str:
        return self.reason


class CheckpointError(FulmenError):
    """The checkpoint can't be read or written. Its text names the store, the key and the cure."""


class AlreadyExists(CheckpointError):
    """A put found its key taken, by bytes that are not the caller's. Nothing was written.

    Attributes:
        store: The URI of the store.
        key: The key within it.
    """

    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key)
        self.store = store
        self.key = key

    def __str__(self) -> str:
        return (
            f"checkpoint {self.store}: {self.key!r} exists already, and objects are never"
            " overwritten. Another process wrote it: use another name, or read it first."
        )


class NotFound(CheckpointError):
    """A get found no object of that key.

    Attributes:
        store: The URI of the store.
        key: The key within it.
    """

    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key)
        self.store = store
        self.key = key

    def __str__(self) -> str:
        return (
            f"checkpoint {self.store}: there is no {self.key!r}. Either it was never written, or it"
            " was deleted because a newer commit made it superfluous: read the newest commit."
        )


_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


class Unreachable(CheckpointError):
    """A store did not do what it was asked to, and may do it later: the same call may be repeated.

    Attributes:
        store: The URI of the store.
        key: The key, or the prefix of a list.
        cause: What the store or the network said.
        unknown: It was a put, and the object may have been written, or may yet be.
    """

    def __init__(self, store: str, key: str, cause: str, unknown: bool = False) -> None:
        super().__init__(store, key, cause, unknown)
        self.store = store
        self.key = key
        self.cause = cause
        self.unknown = unknown

    def __str__(self) -> str:
        verb = "can't tell whether it wrote" if self.unknown else "can't reach"
        cure = "Check that the store is up and can be reached from here"
        if self.cause in _FULL:
            cure = "Make room there"
        return (
            f"checkpoint {self.store}: {verb} {self.key!r}: {self.cause}. {cure}; then try again,"
            " which is safe."
        )


class Denied(CheckpointError):
    """A store refuses what this process was never seen to be allowed.

    Attributes:
        store: The URI of the store.
        key: The key, or the prefix of a list.
        cause: What is missing, and the cure; ends in a full stop.
    """

    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, cause)
        self.store = store
        self.key = key
        self.cause = cause

    def __str__(self) -> str:
        return f"checkpoint {self.store}, {self.key!r}: {self.cause}"

    def as_outage(self) -> Unreachable:
        """The same for those who know that the right was there before, and may come back."""
        return Unreachable(self.store, self.key, self.cause.rstrip("."))


class Fenced(CheckpointError):
    """Another driver has taken over this topology's checkpoint: this one must stop at once.

    Attributes:
        store: The URI of the store.
        number: The commit that this driver wanted to make.
        driver: This driver: who it is, as text.
        epoch: This driver's epoch.
        holder: The driver that has taken over, as text.
        holder_epoch: That driver's epoch.
    """

    def __init__(
        self, store: str, number: int, driver: str, epoch: int, holder: str, holder_epoch: int
    ) -> None:
        super().__init__(store, number, driver, epoch, holder, holder_epoch)
        self.store = store
        self.number = number
        self.driver = driver
        self.epoch = epoch
        self.holder = holder
        self.holder_epoch = holder_epoch

    def __str__(self) -> str:
        return (
            f"driver {self.driver!r} (epoch {self.epoch}) can't make commit {self.number} in"
            f" checkpoint {self.store}: driver {self.holder!r} (epoch {self.holder_epoch}) has"
            " taken over. Nothing is lost: the other driver runs the batch again. This driver"
            " must stop, without acking or emitting anything more. If both were started on purpose,"
            " give each topology a checkpoint of its own (spec.checkpoint)."
        )


class CheckpointMismatch(CheckpointError):
    """The checkpoint is not this topology's. Its text says whose it is, and the cure."""


class CheckpointLost(CheckpointError):
    """The checkpoint is empty, but was not: starting anew would lose what was committed."""


class JobFailed(FulmenError):
    """A batch's Spark job ended without a result.

    Attributes:
        reason: What happened to which worker, in one line.
        is_clusters: Whether the cluster took a worker away: no tuple can be to blame.
        traceback: The Python traceback of what failed in a worker, if there is one.
        worker: The worker whose process ended, if it was one.
    """

    def __init__(
        self,
        reason: str,
        is_clusters: bool = False,
        traceback: str = "",
        worker: int | None = None,
    ) -> None:
        super().__init__(reason, is_clusters, traceback, worker)
        self.reason = reason
        self.is_clusters = is_clusters
        self.traceback = traceback
        self.worker = worker

    def __str__(self) -> str:
        return self.reason


class JobTimedOut(JobFailed):
    """A batch's Spark job was cancelled, as it took too long.

    Attributes:
        seconds: How long it was given.
        what: What took too long.
    """

    def __init__(self, seconds: float, what: str = "the batch") -> None:
        super().__init__(f"{what} took more than {seconds:g} seconds and was cancelled")
        self.args = (seconds, what)
        self.seconds = seconds


class SparkLost(FulmenError):
    """Spark has ended while it was needed.

    Attributes:
        how: What is known of it.
        log_file: Where there may be more.
    """

    def __init__(self, how: str, log_file: str) -> None:
        super().__init__(how, log_file)
        self.how = how
        self.log_file = log_file

    def __str__(self) -> str:
        return (
            f"Spark is gone: {self.how}. More may be in '{self.log_file}'. What is committed stays:"
            " started again, the topology continues from its checkpoint."
        )


class TopologyFailed(FulmenError):
    """A topology can't go on.

    Attributes:
        reason: Who, and what is wrong.
        traceback: The stack of the author's code, if that is where it comes from.
    """

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason, traceback)
        self.reason = reason
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.reason}\n{self.traceback}".rstrip()


# ---- what an author's object says about itself, without secrets ----------------------------------


def text_of(value: object) -> str:
    """`str(value)`, or why there is none: an author's `__str__` may raise anything."""
    return _said(str, value)


def repr_of(value: object, longest: int = 200) -> str:
    """`repr(value)`, cut to so many characters, or why there is none."""
    text = _said(repr, value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def error_text(error: BaseException) -> str:
    """The type and the message of an exception, behind those of what it came of."""
    return with_causes(error, _alone(error))


def with_causes(error: BaseException, text: str) -> str:
    """A text about an exception, behind what the exception came of, the innermost first."""
    told = [text]
    for cause in reversed(causes_of(error)):
        if (said := _alone(cause)) not in told[0]:
            told.insert(0, said)
    return ", hence ".join(told)


def _alone(error: BaseException) -> str:
    notes = getattr(error, "__notes__", None)
    added = f" ({'; '.join(map(text_of, notes))})" if isinstance(notes, list) and notes else ""
    return f"{type(error).__name__}: {text_of(error)}".rstrip(": ") + added


def _said(ask: Callable[[object], str], value: object) -> str:
    try:
        return masked(ask(value))
    except PASSED_ON:
        raise
    except BaseException as error:  # noqa: BLE001 (an author's method may raise anything)
        name = f"__{ask.__name__}__"
        return f"<{type(value).__qualname__}, whose {name} raised {type(error).__name__}>"
