"""`python -m fulmen.checkpoint URI [COMMIT]`: says what a checkpoint holds. It changes nothing."""

import sys
from collections.abc import Iterator, Mapping

from fulmen.checkpoint.manifest import Manifest
from fulmen.checkpoint.names import COMMITS, STATE
from fulmen.checkpoint.payloads import read_manifest, read_newest
from fulmen.checkpoint.store import Store
from fulmen.errors import FulmenError


def description(store: Store, manifest: Manifest) -> Iterator[str]:
    """The lines that say what the state after a commit is."""
    commits, files = (len(store.list(prefix)) for prefix in (COMMITS, STATE))
    yield f"checkpoint {store.uri}: {_count(commits, 'commit')}, {_count(files, 'state file')}"
    if manifest.number == 0:
        yield "nothing was committed yet"
        return
    yield f"topology {manifest.topology!r}, commit {manifest.number}, tag {manifest.tag}"
    yield f"made by {manifest.driver!r}, epoch {manifest.epoch}, batch clock {manifest.clock:.3f} s"
    yield f"newest full manifest in commit {manifest.base}"
    yield f"sections: {_sizes(manifest.sections)}"
    yield f"for this commit only: {_sizes(manifest.transient)}"
    for task, journals in sorted(manifest.tasks.items()):
        yield f"task {task!r}"
        for journal, refs in sorted(journals.items()):
            in_files = sum(ref.file is not None for ref in refs)
            numbers = [ref.commit for ref in refs]
            span = f"from commit {min(numbers)} to {max(numbers)}"
            yield f"  {journal!r}: {_count(len(refs), 'payload')}, {in_files} in files, {span}"


def _sizes(sections: Mapping[str, bytes]) -> str:
    named = (f"{name!r} of {_count(len(sections[name]), 'byte')}" for name in sorted(sections))
    return ", ".join(named) or "none"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def main(arguments: list[str]) -> int:
    """Print the description; returns the exit code."""
    if not (1 <= len(arguments) <= 2 and all(number.isdigit() for number in arguments[1:])):
        sys.stderr.write("usage: python -m fulmen.checkpoint URI [COMMIT]\n")
        return 2
    try:
        store = Store.open(arguments[0])
        number = arguments[1:]
        manifest = read_manifest(store, int(number[0])) if number else read_newest(store)
        for line in description(store, manifest):
            sys.stdout.write(f"{line}\n")
    except FulmenError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
