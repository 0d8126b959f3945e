"""The dead letters of a topology that runs, by way of its driver's server."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import opened, said
from fulmen.cli.cluster.kubectl import Json
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.state.letters.message_lines import MessagePart
from fulmen.errors import FulmenError
from fulmen.metrics.dead_letters import MOST_CONTENT_BYTES

_PATH = "api/dead-letters"
_SECONDS = 60.0
_AT_ONCE = 200
"""Letters of one request, which has them in its address."""


def read_letters(url: str) -> Json:
    """All that there are. FulmenError if the server does not tell."""
    return _answer(url, _PATH)


def change_letters(url: str, action: str, ids: list[str], author: Author) -> tuple[int, bool]:
    """Have letters sent again, or removed: how many, and whether that is committed already."""
    taken, is_all = 0, True
    for first in range(0, len(ids), _AT_ONCE):
        answer = _change(url, action, ids[first : first + _AT_ONCE], author)
        taken += answer["taken"]
        is_all = is_all and answer["is_all"]
    return taken, is_all


def send_messages(url: str, parts: Sequence[MessagePart], author: Author) -> tuple[int, bool]:
    """Have messages sent, part by part: how many, and whether that is committed already.

    Raises:
        FulmenError: Some were not sent. It says how many were: the same call sends only the others.
    """
    largest = max(len(part.lines) for part in parts)
    if largest > MOST_CONTENT_BYTES:
        raise BadInput(
            f"a message has {largest:,} bytes as a line, and a topology that runs takes"
            f" {MOST_CONTENT_BYTES:,} at once. Nothing was sent. Stop the topology, and give"
            " --checkpoint."
        )
    taken, is_all = 0, True
    for part in parts:
        try:
            answer = _change(url, "send", [part.id], author, part.lines)
        except FulmenError as error:
            all_of = sum(len(one.messages) for one in parts)
            raise FulmenError(
                f"{error} {taken:,} of {all_of:,} messages were taken before that. Give the same"
                " command again: it leaves out what was sent."
            ) from error
        taken += 0 if answer["sent_in"] else len(part.messages)
        is_all = is_all and answer["is_all"]
    return taken, is_all


def _change(
    url: str, action: str, ids: Sequence[str], author: Author, content: bytes = b""
) -> Json:
    asked = {"action": action, "by": author.name, "because": author.because, "id": ids}
    return _answer(url, f"{_PATH}?{urlencode(asked, doseq=True)}", content)


def _answer(url: str, path: str, content: bytes | None = None) -> Json:
    try:
        with opened(url, path, _SECONDS, content=content) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except HTTPError as error:
        raise (BadInput if error.code < 500 else FulmenError)(said(error)) from error
