"""Serves dead letters: shows them, and passes on what people want done with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import parse_qs

import orjson

from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.driver.taps.letter_requests import LettersRefused, TakenLetters
from fulmen.engine.driver.taps.taps import Taps
from fulmen.engine.state.letters.message_lines import MessageLineReader, MessagePart, SentFrom
from fulmen.engine.totals.totals import Totals
from fulmen.errors import CheckpointError
from fulmen.metrics.answers import Answer
from fulmen.metrics.as_json.dead_letters import letters_json

WAIT_SECONDS = 20.0
"""For so long a request waits until it is committed; then it is told that it will be."""
ACTIONS = ("replay", "drop")
SEND = "send"
MOST_CONTENT_BYTES = 4 << 20
Content = Callable[[int], bytes | None]
"""Reads the content of a request, of so many bytes at most; None: it has more, or does not come."""


def no_content(_most: int) -> bytes:
    """Of a request that has none."""
    return b""


class LetterAnswers:
    """Answers requests about the dead letters of one topology."""

    def __init__(self, taps: Taps, totals: Callable[[], Totals | None]) -> None:
        self._taps, self._totals = taps, totals

    def show(self) -> Answer:
        """All that are kept. Their values only if the topology allows to look at its tuples."""
        taps = self._taps
        try:
            letters, senders = taps.letters.read(), taps.letters.senders()
        except (LettersRefused, CheckpointError) as error:
            return _refused(error)
        mask = taps.mask if taps.is_allowed else None
        shown = letters_json(letters, self._fields, mask)
        known = {"senders": [*senders.tasks], "sent": senders.sent}
        return Answer(orjson.dumps({**shown, **known}), "application/json")

    def change(self, query: str, content: Content = no_content) -> Answer:
        """Have letters sent again, or removed, or messages sent that are in the content."""
        given = parse_qs(query)
        ids, action = given.pop("id", []), given.pop("action", [""])[-1]
        author = Author(given.pop("by", [""])[-1], given.pop("because", [""])[-1])
        if given or action not in (*ACTIONS, SEND) or not ids or (action == SEND and len(ids) > 1):
            text = (
                f"There are action ({' or '.join(ACTIONS)}), by, because, and id, as often as"
                f" needed; or action {SEND} with one id, and messages as lines of JSON.\n"
            )
            return Answer(text.encode(), status=HTTPStatus.BAD_REQUEST)
        try:
            if action == SEND:
                return self._send(ids[0], content(MOST_CONTENT_BYTES), author)
            drops = action == "drop"
            return _taken(self._taps.letters.ask(set(ids), author, WAIT_SECONDS, drops=drops))
        except (LettersRefused, CheckpointError) as error:
            return _refused(error)

    def _send(self, part: str, content: bytes | None, author: Author) -> Answer:
        if content is None:
            text = f"The messages have more than {MOST_CONTENT_BYTES:,} bytes, or do not come.\n"
            return Answer(text.encode(), status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        requests = self._taps.letters
        reader = MessageLineReader(SentFrom("", "", requests.senders().tasks), time.time())  # noqa: TID251
        reader.read("message", content.decode(errors="replace").splitlines())
        if reader.problems or not reader.parts:
            told = "\n".join(map(str, reader.problems)) or "There is no message."
            text = f"Nothing was sent.\n{told}\n"
            return Answer(text.encode(errors="backslashreplace"), status=HTTPStatus.BAD_REQUEST)
        messages = [one for some in reader.parts for one in some.messages]
        return _taken(requests.send(MessagePart(part, messages, b""), author, WAIT_SECONDS))

    def _fields(self, component: str, stream: str) -> Sequence[str]:
        totals = self._totals()
        streams = {} if totals is None else totals.current.placed.streams.get(component, {})
        return tuple(streams[stream].fields) if stream in streams else ()


def _taken(taken: TakenLetters) -> Answer:
    told = {"taken": taken.taken, "is_all": taken.is_all, "sent_in": taken.sent_in}
    return Answer(orjson.dumps(told), "application/json")


def _refused(error: Exception) -> Answer:
    text = f"{error}\n".encode(errors="backslashreplace")
    return Answer(text, status=HTTPStatus.SERVICE_UNAVAILABLE)
