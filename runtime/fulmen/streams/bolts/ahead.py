"""Steps of a pipeline in the task that emits: ahead of a grouping, with no bolt of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from fulmen.api import FailedException, Stream
from fulmen.api.input_function import InputFunction, RowsMade
from fulmen.errors import CodeError
from fulmen.streams.bolts.loops import FailedRow, StepsLoop
from fulmen.streams.graph.nodes import StepNode
from fulmen.streams.graph.registry import find_graph


class StepsAhead(InputFunction):
    """Runs steps for one input. Its `config` names pipeline, steps and digest: `FusedOptions`."""

    @override
    def check(self, stream: Stream) -> Iterable[str]:
        try:
            StepsLoop(self.steps(), stream)
        except CodeError as error:
            return [str(error)]
        except ValueError as error:  # a class whose fields the rows have not
            return [str(error)]
        return ()

    @override
    def prepare(self, fields: Sequence[str]) -> None:
        self._loop = StepsLoop(self.steps(), Stream(tuple(fields)))

    @override
    def run(self, rows: Sequence[Any]) -> RowsMade:
        ran = self._loop.run(rows)
        failed = {i: _why(one) for i, one in ran.failed.items()}
        return RowsMade(ran.rows, ran.at, failed, ran.steps)

    def steps(self) -> list[StepNode]:
        """The steps, in the author's module.

        Raises:
            CodeError: They are not found, or are others here.
        """
        graph = find_graph(self.config["pipeline"])
        return graph.steps(self.config["steps"], self.config["digest"])


def _why(failed: FailedRow) -> str | BaseException:
    return failed.error if isinstance(failed.error, FailedException) else failed.reason
