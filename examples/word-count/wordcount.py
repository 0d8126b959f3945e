"""Counts the words in all text files below a folder."""

import re
import sysconfig
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fulmen import (
    BasicBolt,
    BasicOutputCollector,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
)

Line = tuple[str, int]  # a file, and the number of the line in it


class Lines(Spout):
    """Emits every line of the files; each task has its share of them."""

    outputs = ["line"]
    transient = ["unread"]  # all other fields are durable

    def __init__(self) -> None:
        self.position = ("", 0)  # a file, and how many of its lines were emitted
        self.failed: list[Line] = []  # lines to emit again
        self.at_end = False

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Go on at `position`: at the start, or where the last process stopped."""
        files = text_files(conf.get("path") or sysconfig.get_path("stdlib"))
        tasks = len(context.tasks(context.component))
        self.unread = self.lines(files[context.task_index :: tasks])
        self.collector = collector

    def lines(self, files: list[str]) -> Iterator[Line]:
        """The lines after `position`, as (file, number); moves `position`."""
        for file in (file for file in files if file >= self.position[0]):
            first = self.position[1] if file == self.position[0] else 0
            for number in range(first, len(lines_of(file))):
                self.position = (file, number + 1)
                yield file, number

    def next_tuple(self) -> None:
        msg_id = self.failed.pop() if self.failed else next(self.unread, None)
        self.at_end = msg_id is None
        if msg_id is not None:
            file, number = msg_id
            self.collector.emit([lines_of(file)[number]], msg_id=msg_id)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.failed.append(msg_id)

    def is_exhausted(self) -> bool:
        return self.at_end and not self.failed


class Split(BasicBolt):
    """Emits the words of each line in lower case."""

    outputs = ["word"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for word in re.findall(r"\w+", tup["line"].lower()):
            collector.emit([word])


class Count(BasicBolt):
    """Counts each word in keyed state, of which only what changed is written."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        word = tup["word"]
        self.state[word] = self.state.get(word, 0) + 1


def text_files(folder: str) -> list[str]:
    """The text files below a folder, but for tests and for packages that were installed into it."""
    skipped = {"test", "tests", "site-packages", "dist-packages"}
    files = (path for path in Path(folder).rglob("*") if path.suffix in (".py", ".txt"))
    return sorted(str(f) for f in files if not skipped & set(f.relative_to(folder).parts))


@lru_cache(maxsize=4)
def lines_of(file: str) -> list[str]:
    """The lines of a file; those of the files at hand are kept."""
    with open(file, encoding="utf-8", errors="replace") as text:
        return text.readlines()
