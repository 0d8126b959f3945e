"""What spouts and bolts have in common."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from fulmen.api.components.kept import Kept
from fulmen.api.declarer import OutputFieldsDeclarer, Stream, declare

if TYPE_CHECKING:  # neither the operator nor most topologies need it
    from pydantic import BaseModel

Outputs = Sequence[str] | Mapping[str, Sequence[str] | Stream] | Stream


def overrides(instance: Component, method: str) -> bool:
    """Whether an instance has a method of its own instead of Fulmen's, which does nothing.

    It is in the instance's class, or set on the instance itself.
    """
    of_class, of_instance = _may_override(type(instance), method)
    return of_class or (of_instance and callable(vars(instance).get(method)))


@lru_cache(maxsize=1024)
def _may_override(cls: type, method: str) -> tuple[bool, bool]:
    """Whether a class overrides a method of Fulmen's, and whether its instances may."""
    owners = [base for base in cls.__mro__ if method in vars(base)]
    own = [base for base in owners if base.__module__.startswith("fulmen.api.")]
    return bool(own) and owners[0] not in own, bool(own)


class Component(ABC):
    """The base of spouts and bolts.

    A method that Fulmen calls may also be set on the instance, in `__init__`, `open` or `prepare`,
    as in `self.ack = self.ack_fast`.

    Attributes:
        outputs: The fields of the stream `default`, such as `["word"]`; or a mapping of stream
            names to fields, or to a `Stream`, which may be direct; or one `Stream`, of `default`.
        transient: Names of fields that are not to be written to the checkpoint, such as caches.
        config_model: A pydantic model of the component's `config` in the topology's file, without
            the topology's own. Every mistake is found before the topology runs. `open` and
            `prepare` get the validated model as `context.options`. None: any `config` will do.
    """

    outputs: ClassVar[Outputs] = ()
    transient: ClassVar[Sequence[str]] = ()
    config_model: ClassVar[type[BaseModel] | None] = None

    @cached_property
    def state(self) -> MutableMapping[Any, Any]:
        """Keyed durable state: a dict of which only the changes are written to the checkpoint.

        A value counts as changed when it is assigned: after `self.state[key].append(x)`, write
        `self.state[key] = ...` too. Keys and values must be picklable.
        """
        return {}  # for an author's unit test; in a topology the engine puts its own in its place

    def outputs_for(self, options: Any) -> Outputs:  # noqa: ARG002 (for classes that need it)
        """The output streams, if they depend on the component's `config`. Default: `outputs`.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return self.outputs

    def check_input(
        self,
        options: Any,  # noqa: ARG002
        stream: Stream,  # noqa: ARG002
    ) -> Iterable[str | Warning]:
        """Find mistakes in a stream that the component subscribes to. Default: none.

        Called before the topology runs, by `fulmen validate` too, and for each input.

        Args:
            options: The validated `config_model`; None if the class has none.
            stream: Its fields, and what is known of their types.

        Returns:
            What is wrong and what to do, one sentence or two for each mistake. A `UserWarning`
            with such a text: the topology runs all the same.
        """
        return ()

    def check_inputs(
        self,
        options: Any,  # noqa: ARG002
        inputs: Mapping[tuple[str, str], Stream],  # noqa: ARG002
    ) -> Iterable[str | Warning]:
        """Find mistakes in the streams that the component subscribes to, taken together.

        Called as `check_input`, which is for one of them, if all of them are known.

        Args:
            options: The validated `config_model`; None if the class has none.
            inputs: The streams, by component and stream.

        Returns:
            As for `check_input`.
        """
        return ()

    def grouping_key(
        self,
        options: Any,  # noqa: ARG002
        source: tuple[str, str],  # noqa: ARG002
    ) -> Sequence[str]:
        """The fields of an input whose equal values must come to one task. Default: none.

        Called as `check_input`. If the input is divided among several tasks in another way, that is
        told as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.
            source: Its component and stream.
        """
        return ()

    def is_of_all_rows(self, options: Any) -> bool:  # noqa: ARG002
        """Whether results are of all rows, so that one task should have them. Default: no.

        Called as `check_input`. If several tasks divide the rows, that is told as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return False

    def lateness(self, options: Any) -> int | None:  # noqa: ARG002
        """The most milliseconds by which emits can be late. Default: no limit.

        Of a component that leaves out what is late. Called as `check_input`. If what is behind it
        takes what is later, that is told as a warning: it never comes there.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def needs_event_time(self, options: Any) -> str | Warning | None:  # noqa: ARG002
        """What never happens if nothing that it descends from declares `eventTime`. Default: None.

        Called as `check_input`. If nothing does, this is told: as an error on Kubernetes, where a
        topology has no end, and else as a warning.

        Args:
            options: The validated `config_model`; None if the class has none.

        Returns:
            What does not happen while the topology runs, such as "no window ends". A `UserWarning`
            with such a text, if the results come all the same: then it is never an error.
        """
        return None

    def goes_by_clock(self, options: Any) -> bool:  # noqa: ARG002
        """Whether this bolt's watermark is the time of day instead of event time. Default: no.

        Called as `check_input`. See `Batch.next_watermark`.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return False

    def needs_memory(self, options: Any) -> str | None:  # noqa: ARG002
        """Why `self.state` can't be on disk, such as "it goes through all keys". Default: None.

        Called as `check_input`, if `keyedState` says `backend: disk`. This is told as an error.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def needs_acks(self, options: Any) -> str | None:  # noqa: ARG002
        """What goes wrong with `ackers: 0`, such as "calls are answered too early". Default: None.

        Of a spout. Called as `check_input`, if the topology has `ackers: 0`, with which a message
        counts as acked when it is emitted. This is told as an error.

        Args:
            options: The validated `config_model`; None if the class has none.
        """
        return None

    def committed(self, number: int) -> None:
        """Called after a commit: what this instance's fields and state held then is durable.

        It is called before anything else of the next batch. Every commit that changed this task is
        followed by a call, unless the process is lost first: then the first batch after the restore
        begins with one. It may be called twice for one commit. What is changed here is durable with
        the next commit. It is not called in a transactional topology, where `finish_batch` of a
        committer is the place for that.

        An exception is reported; with `onError: crash` it stops the topology.

        Args:
            number: The number of the latest commit.
        """

    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        """Divide what tasks keep among another number of tasks. Default: Fulmen does it, if it can.

        Fulmen can move the keys of a fields grouping. Override it if `self.state` has other keys,
        or if fields of instances have changed, such as a spout's position. It is called in the
        driver when the number of tasks changes, with all spouts stopped and all trees ended, and
        once before that, to see whether it can be done: so it must only compute.

        Args:
            kept: What each task keeps now.
            tasks: The new number of tasks.

        Returns:
            What each of these is to keep. An exception: the change is refused, and its text told.
        """
        raise NotImplementedError

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the output streams. Called before the topology runs. `outputs` does the same."""
        declare(self.outputs, declarer)
