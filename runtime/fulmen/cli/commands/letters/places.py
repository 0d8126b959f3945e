"""Where letters are: in the checkpoint of a stopped topology, or with a driver that runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

import click

from fulmen.checkpoint import Store
from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster import served_letters
from fulmen.cli.cluster.driver_figures import checked_url
from fulmen.cli.cluster.kubectl import Kubectl, cluster_command
from fulmen.cli.cluster.port_forward import Forward, driver_of
from fulmen.cli.commands.state.kept import refuse_running
from fulmen.cli.local.run_checkpoint import checkpoint_of
from fulmen.engine.driver.edits import letters as edits
from fulmen.engine.driver.edits.changes import Author
from fulmen.engine.state.letters import kept_letters
from fulmen.engine.state.letters.message_lines import MessagePart
from fulmen.metrics.as_json.dead_letters import letters_json

Json = Mapping[str, Any]
AT_NEXT_START = " when the topology starts next"
LATER = ", and the rest follows with one of the next batches"


class LetterPlace(Protocol):
    """A place where letters are."""

    def read(self) -> Json:
        """All letters; and `senders`, from where messages can be sent, and what was `sent`."""

    def change(self, action: str, ids: list[str], author: Author) -> tuple[int, str]:
        """Have letters sent again, or removed: how many, and when."""

    def send(self, parts: Sequence[MessagePart], author: Author) -> tuple[int, str]:
        """Have messages sent: how many, and when."""


@dataclass(frozen=True)
class InCheckpoint:
    """The letters in a checkpoint. A driver that runs is ended by a change.

    Attributes:
        uri: The checkpoint.
        ends_driver: Whether that may be one of this machine.
    """

    uri: str
    ends_driver: bool = False

    def read(self) -> Json:  # noqa: D102
        store = Store.open(self.uri)
        senders = edits.senders(store)
        letters = letters_json(kept_letters.read_letters(store))
        return {**letters, "senders": [*senders.tasks], "sent": senders.sent}

    def change(self, action: str, ids: list[str], author: Author) -> tuple[int, str]:  # noqa: D102
        store = self._changed()
        if action == "drop":
            return len(edits.drop_letters(store, ids, author)), ""
        return len(edits.replay_letters(store, ids, author)), AT_NEXT_START

    def send(self, parts: Sequence[MessagePart], author: Author) -> tuple[int, str]:  # noqa: D102
        edits.send_messages(self._changed(), parts, author)
        return sum(len(part.messages) for part in parts), AT_NEXT_START

    def _changed(self) -> Store:
        store = Store.open(self.uri)
        if not self.ends_driver:
            refuse_running(store)
        return store


@dataclass(frozen=True)
class ServedLetters:
    """The letters of a topology that runs, by way of its driver's server."""

    url: str

    def read(self) -> Json:  # noqa: D102
        return served_letters.read_letters(self.url)

    def change(self, action: str, ids: list[str], author: Author) -> tuple[int, str]:  # noqa: D102
        taken, is_all = served_letters.change_letters(self.url, action, ids, author)
        return taken, "" if is_all else LATER

    def send(self, parts: Sequence[MessagePart], author: Author) -> tuple[int, str]:  # noqa: D102
        taken, is_all = served_letters.send_messages(self.url, parts, author)
        return taken, "" if is_all else LATER


@dataclass(frozen=True)
class PlaceOptions:
    """The options that say where letters are.

    Attributes:
        kubectl: Of a topology on a cluster.
        checkpoint: Of one that is stopped.
        topology: The name of one on a cluster.
        url: Of the server of one that runs on this machine.
    """

    kubectl: Kubectl
    checkpoint: str | None
    topology: str | None
    url: str | None

    @contextmanager
    def opened(self, *, ends_driver: bool) -> Iterator[LetterPlace]:
        """The place. `ends_driver`: whether a driver that runs may be ended by a change."""
        given = self.checkpoint, self.topology, self.url
        if sum(one is not None for one in given) != 1:
            raise BadInput(
                "give one of these: the CHECKPOINT of a topology that is stopped, --url of one that"
                " runs on this machine, --topology for one on a cluster."
            )
        if self.topology is None and self.kubectl.flags:
            raise BadInput("--namespace and --context are for a topology on a cluster: --topology.")
        if self.checkpoint is not None:
            yield InCheckpoint(checkpoint_of(self.checkpoint), ends_driver)
        elif self.url is not None:
            yield ServedLetters(checked_url(self.url))
        else:
            topology = self.kubectl.get(str(self.topology))
            pod = driver_of(topology, "its driver can't be asked; its checkpoint can be read")
            with Forward(self.kubectl.of(topology), pod) as forward:
                yield ServedLetters(forward.url)


def of_place(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where letters are, as `place`."""

    @click.option(
        "--checkpoint",
        metavar="CHECKPOINT",
        help="Of a topology that is stopped: a folder, a URI, or a topology's file that names one.",
    )
    @click.option("--topology", metavar="NAME", help="The topology on a cluster.")
    @click.option("--url", metavar="URL", help="Of a `fulmen run --metrics-port` at this URL.")
    @cluster_command
    @wraps(command)
    def with_place(
        kubectl: Kubectl,
        checkpoint: str | None,
        topology: str | None,
        url: str | None,
        **others: Any,
    ) -> None:
        command(place=PlaceOptions(kubectl, checkpoint, topology, url), **others)

    return with_place
