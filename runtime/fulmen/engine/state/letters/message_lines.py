"""Reads messages out of lines of JSON, as sinks of dead letters write them. Pure.

Messages are sent part by part. A part is known by what it has, so that one that was sent already is
not sent again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fulmen.api.declarer import DEAD_LETTERS
from fulmen.engine.state.letters.dead_letters import (
    DeadLetter,
    LetterKind,
    LostMessage,
    MessageFailure,
    letter_of,
)
from fulmen.topology.problems import Problem, did_you_mean, there_are

MOST_MESSAGES = 1000
MOST_BYTES = 1 << 20
"""Of a part; one message may have more."""
_MOST_VALUES = 1 << 30


@dataclass(frozen=True)
class SentFrom:
    """Where messages are sent from, if their lines do not say it.

    Attributes:
        component: The component; "": each line says it.
        stream: Its stream; "": as the line says, or the default one.
        senders: The components from which messages can be sent.
    """

    component: str
    stream: str
    senders: Collection[str]


class MessagePart(NamedTuple):
    """Messages that are sent at once, or not at all.

    Attributes:
        id: By which it is known.
        messages: Each with the component that it is sent from.
        lines: The same as lines, which say all that is needed.
    """

    id: str
    messages: list[tuple[str, DeadLetter]]
    lines: bytes


@dataclass
class MessageLineReader:
    """Reads the lines of one source after the other.

    Attributes:
        sent_from: Where messages are sent from.
        at: When they become letters, in wall clock seconds.
        parts: What was read.
        problems: The lines that are no messages.
        salt: What tells parts from those of before with the same messages; "": nothing.
    """

    sent_from: SentFrom
    at: float
    salt: str = ""
    parts: list[MessagePart] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _same: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum(len(part.messages) for part in self.parts)

    def read(self, name: str, lines: Iterable[str]) -> None:
        """Read the lines of a source. `name`: of the source, for people."""
        to, senders = self.sent_from.component, [*self.sent_from.senders]
        if to and to not in senders:  # one mistake, however many lines there are
            self.problems = [Problem("--to", *_no_sender(to, senders))]
            return
        for some in _parted(self._messages(name, lines)):
            content = b"".join(line for _, line in some)
            digest = hashlib.sha256(content + self.salt.encode()).hexdigest()[:20]
            self._same[digest] = number = self._same.get(digest, 0) + 1
            part = digest if number == 1 else f"{digest}-{number}"
            self.parts.append(MessagePart(part, [message for message, _ in some], content))

    def _messages(
        self, name: str, lines: Iterable[str]
    ) -> Iterator[tuple[tuple[str, DeadLetter], bytes]]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = _found(line, self.sent_from)
            except ValueError as error:
                self.problems.append(Problem(f"{name}:{number}", *error.args))  # with the cure
            else:
                whole = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
                yield _message_of(found, self.at), f"{whole}\n".encode()


def _parted(
    messages: Iterable[tuple[tuple[str, DeadLetter], bytes]],
) -> Iterator[list[tuple[tuple[str, DeadLetter], bytes]]]:
    some: list[tuple[tuple[str, DeadLetter], bytes]] = []
    size = 0
    for message, line in messages:
        if some and (len(some) == MOST_MESSAGES or size + len(line) > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append((message, line))
        size += len(line)
    if some:
        yield some


def _message_of(found: Mapping[str, Any], at: float) -> tuple[str, DeadLetter]:
    failure = MessageFailure(found["failures"], found["reason"])
    lost = LostMessage(found["stream"], found["values"], found["msg_id"])
    letter = letter_of(lost, LetterKind.GIVEN_UP, failure, at, _MOST_VALUES)
    return found["component"], letter


def _found(line: str, sent_from: SentFrom) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("no object of JSON")
    component = sent_from.component or row.get("component", "")
    if row.get("stream") == DEAD_LETTERS and isinstance(row.get("values"), dict):
        row = row["values"]  # of a sink with `anyStream`
    values = row.get("values", row.get("row"))
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list):
        raise ValueError("it has no list or object in 'values', or in 'row'")
    if component not in sent_from.senders:
        raise ValueError(*_no_sender(component, [*sent_from.senders]))
    failures = row.get("failures", 1)
    return {
        "component": component,
        "stream": sent_from.stream or _text(row, "stream") or "default",
        "values": values,
        "msg_id": row.get("msg_id"),
        "failures": failures if isinstance(failures, int) else 1,
        "reason": _text(row, "reason"),
    }


def _no_sender(component: str, senders: Sequence[str]) -> tuple[str, str]:
    if not component:
        return "it names no component to be sent from", "Say it with --to."
    message = f"messages can't be sent from {component!r}, as no trees begin there"
    return message, did_you_mean(component, senders) or there_are(senders)


def _text(row: Mapping[str, Any], name: str) -> str:
    found = row.get(name, "")
    return found if isinstance(found, str) else ""
