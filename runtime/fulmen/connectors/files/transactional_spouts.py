"""Files of lines as the source of a transactional topology. The names are as Kafka's.

Each task of the spout is a partition. See `parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api.components import FailedException
from fulmen.api.components.kept import Kept
from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import Stream
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
)
from fulmen.connectors.base.parts import PartCoordinator, PartSource
from fulmen.connectors.files.options import TransactionalFileSpoutOptions
from fulmen.connectors.files.reading.line_spout import FileSpout
from fulmen.connectors.files.reading.parts import FileParts, dealt_parts


class _OpaqueParts(FileParts):
    """Parts of opaque transactions: the attempt fails while nothing can be read."""

    @override
    def emit_part(self, *about: Any) -> Mapping[str, Any]:
        try:
            return super().emit_part(*about)
        except ServiceUnavailable as error:
            raise FailedException(str(error)) from error


class _FileSource(PartSource):
    """The base of both spouts."""

    config_model = TransactionalFileSpoutOptions

    @override
    def stream(self, options: TransactionalFileSpoutOptions) -> Stream:
        return FileSpout().stream(options)

    @override
    def get_coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> _Coordinator:
        return _Coordinator(len(context.tasks(context.component)))

    @override
    def parts(self, context: TopologyContext) -> FileParts:
        return FileParts(context)

    @override
    @classmethod
    def redistribute(cls, kept: Sequence[Kept], tasks: int) -> Sequence[Kept]:
        return dealt_parts(kept, tasks)


class TransactionalFileSpout(_FileSource, PartitionedTransactionalSpout):
    """Emits the lines of files; each attempt has exactly the lines of the one before.

    If some of these are gone, the transaction fails each time, with that reason.

    The stream `errors` has lines that can't be read in the format, and what is said of files that
    are gone or can't be read: the attempt, `data`, `reason`, `position`.
    """


class OpaqueTransactionalFileSpout(_FileSource, OpaquePartitionedTransactionalSpout):
    """Emits the lines of files; each attempt has what there is behind the last transaction.

    What an attempt that has failed had, and can't be read now, comes in a later transaction. Its
    streams are those of a `TransactionalFileSpout`.
    """

    @override
    def parts(self, context: TopologyContext) -> FileParts:
        return _OpaqueParts(context)


class _Coordinator(PartCoordinator):
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    @override
    def num_partitions(self) -> int:
        return self._partitions
