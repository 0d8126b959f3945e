"""Sinks: bolts that write to something outside, all rows of a batch at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fulmen.api.components.component import Component
from fulmen.api.context import TopologyContext
from fulmen.api.marks import Point, StoreMismatch, read_again
from fulmen.errors import text_of

Guarantee = Literal["at-least-once", "exactly-once"]
"""The promise of a sink: see `Sink`."""

ERRORS_STREAM = "errors"
"""The stream that a sink emits refused rows on."""
MALFORMED_FIELDS = ("data", "reason", "position")
"""The last fields of that stream of a source: what can't be read, why, and where that is."""


class ServiceUnavailable(Exception):
    """A service that a component needs is away for now: the batch is tried again until it is back.

    Raise it in `open`, `prepare`, in `execute` of a bolt, in the methods of a sink, or in those
    of a BatchBolt or of an emitter of transactions. While it lasts, no tuple is lost, none
    fails or times out and no transaction is given up. People are told which service is away,
    and since when; of transactions it is reported as an error.

    In `next_tuple` of a spout it is reported as well, and says that the source has not come to its
    end: `fulmen run --until-drained` goes on to ask it, for a minute at least.

    Attributes:
        service: What is away, such as "PostgreSQL at db:5432"; without any secret.
        reason: What it said, in one line.
        state: What is said of the service if it is there, such as "asks to try again".
    """

    def __init__(self, service: str, reason: str, state: str = "is away") -> None:
        super().__init__(service, reason, state)
        self.service = service
        self.reason = reason
        self.state = state

    def __str__(self) -> str:
        return f"{self.service} {self.state}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Which rows a write is about. The store keeps the latest in the same transaction as the rows.

    Attributes:
        sink: Identifies one task of one sink in one checkpoint, at random: the key to keep the mark
            under.
        number: The commit that has the rows. Rises with every write of the task, with gaps.
        tag: Identifies the commit's content, at random.
        label: Topology, component and number of the task among the component's, for people.
        previous: Number and tag of the mark that the store has before these rows are written; None:
            they are the task's first ones.
    """

    sink: str
    number: int
    tag: str
    label: str
    previous: Point | None = None

    def is_written(self, number: int | None, tag: str | None) -> bool:
        """Whether the store has these rows already, so that they are not to be written again.

        Args:
            number: Of the mark that the store has under `sink`; None: it has none.
            tag: Of the same mark.

        Raises:
            StoreMismatch: The store has neither these rows nor exactly those before them.
        """
        found = None if number is None else Point(number, tag or "")
        if found == (self.number, self.tag):
            return True
        if found == self.previous:
            return False
        component, task = self.label.split("/")[-2:]
        command = f"fulmen state accept-store CHECKPOINT {component} --because TEXT"
        again = read_again(component, found, task)
        raise StoreMismatch(
            f"sink {self.label!r}", "commit", found, self.previous, command, again=again
        )


class Rows(Sequence[Any]):
    """The rows of one batch that one task of a sink is to write, in the order of arrival.

    Each item is one row: the values of a tuple in `encode`, and what `encode` made of it in
    `write`.

    Attributes:
        fields: The names of a tuple's values, in their order.
        failed: Reasons of the rows that were failed, by their positions.
        traceparents: In `encode`, for rows of messages that are traced: position -> the W3C header
            `traceparent`, by which others can go on with the trace.
    """

    __slots__ = ("_items", "_roots", "failed", "fields", "traceparents")

    def __init__(
        self,
        fields: tuple[str, ...],
        items: Sequence[Any],
        roots: Callable[[int], tuple[int, ...]] | None = None,
        traceparents: Mapping[int, str] | None = None,
    ) -> None:
        self.fields = fields
        self._items, self._roots = items, roots
        self.failed: dict[int, str] = {}
        self.traceparents = traceparents or {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __getitem__(self, i: Any) -> Any:
        return self._items[i]

    def roots(self, i: int) -> tuple[int, ...]:
        """The root ids of the tuple trees that row `i` is part of, in `write` at least once.

        A message that is emitted again because its batch came to nothing has the same root id,
        unless its source has emitted others before it. () if the tuple is not tracked.
        """
        return self._roots(i) if self._roots is not None else ()

    def fail(self, i: int, reason: str) -> None:
        """Refuse row `i`, from 0: it is not written, and its tuple fails or goes to `errors`.

        Args:
            i: The position of the row.
            reason: Why, in one line; at most 500 characters of it are told.
        """
        if not 0 <= i < len(self._items):
            raise IndexError(f"there is no row {i}: there are {len(self._items)}")
        self.failed.setdefault(i, text_of(reason))

    def fail_all(self, reason: str) -> None:
        """Refuse all rows that are not refused yet."""
        for i in range(len(self._items)):
            self.failed.setdefault(i, text_of(reason))


class Sink(Component):
    """A bolt that writes to something outside, all rows of a batch in one call for each task.

    With `takes_parts` it is called several times in a batch, with rows as they come.

    Its `config` has `guarantee`:

    - `at-least-once`: rows are written at the end of their batch, before it is committed, and acked
      when they are written. A batch that is run again writes again. A refused row fails.
    - `exactly-once`: rows are part of the commit, and acked with it. They are written in the next
      batch together with a mark, which the store keeps in the same transaction. On any repetition
      the store's own mark decides, so each row has its effect exactly once, also with sources that
      repeat nothing alike. A row that `encode` refuses fails; one that `write` refuses can't fail
      any more, and is emitted on the stream `errors`, with the reason.

    All streams that a sink receives must have the same fields, in any order; or its `config` has
    `anyStream: true`. Then a row is the component and the stream that a tuple is from, and a
    mapping of its values by name.

    Attributes:
        guarantees: Those that the class can keep. The first is the default.
        prints: Whether it writes rows to standard output, where `fulmen run` then writes nothing.
        takes_parts: Whether `encode` and `write` are called for rows as soon as they have come, if
            the guarantee is `at-least-once`. Set it where a call costs next to nothing: no row
            waits in memory for the end of its batch.
    """

    guarantees: ClassVar[Sequence[Guarantee]] = ("at-least-once",)
    prints: ClassVar[bool] = False
    takes_parts: ClassVar[bool] = False
    outputs: ClassVar[Mapping[str, Sequence[str]]] = {ERRORS_STREAM: ("row", "reason")}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called as `Bolt.prepare`, without a collector. Connect here."""

    def encode(self, rows: Rows) -> Sequence[Any]:
        """Encode each row for `write`: anything that can be pickled. Default: the values.

        Called at the end of a batch, before anything is written or committed. Call `rows.fail` for
        rows that can never be written; what is returned for those is not used.

        Returns:
            One item for each row, in the same order.
        """
        return rows

    @abstractmethod
    def write(self, rows: Rows, mark: Mark | None) -> None:
        """Write all rows, or raise and write none.

        Call `rows.fail` for single rows that the store refuses, and write the others.

        An exception that may mean that the store is away (`ServiceUnavailable`, OSError, or one of
        a client's own classes) has the batch tried again until it succeeds. Under `at-least-once`
        any other exception fails all rows. Under `exactly-once` it is reported, and the write is
        tried again until it succeeds, since the rows are accepted already.

        May be called on another thread than the other methods, but never beside them.

        Args:
            rows: What `encode` returned, without rows that were failed.
            mark: None: at-least-once. Otherwise read the store's own mark of `mark.sink`, write
                nothing if `mark.is_written(...)`, and else keep `mark.number` and `mark.tag` in the
                same transaction as the rows. If a repetition finds them written, fail the same rows
                as the first time.
        """

    @property
    def appends(self) -> bool:
        """Whether each row is one more, and takes the place of no other one: asked after `prepare`.

        Then a row that was written as an early result is not written once more when its time has
        come. Default: that is not known, and it is.
        """
        return False

    @property
    def key_fields(self) -> Sequence[str]:
        """The fields of whose values a row's key is made: asked after `prepare`.

        A row takes the place of the one with the same key, and `deletion` deletes it. Then an early
        result that is taken back, and whose key no other row has, is deleted. Default: none, and it
        stays.
        """
        return ()

    def deletion(self, item: Any) -> Any:  # noqa: ARG002 (for those below)
        """For a sink with `key_fields`: the item for `write` that deletes a row's key.

        Args:
            item: What `encode` returned for the row.
        """
        name = type(self).__name__
        raise TypeError(f"{name} has key_fields, but no deletion(item): add that method")

    def describe(self, item: Any) -> Any:
        """Describe a row that `write` refused, for `row` of the stream `errors`. Default: the item.

        Args:
            item: What `encode` returned for it.
        """
        return item

    def cleanup(self) -> None:
        """Called before the instance is dropped, if there is time. Close the connection here."""
