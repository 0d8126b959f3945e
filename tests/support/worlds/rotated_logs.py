"""Log files, and all that happens to them: written, renamed, cut, written again, removed, packed.

Lines are numbered, and all of them are equally long, so that a file can be written again with as
many bytes. What would lose lines that are not read yet is only done when they are: whoever reads
the logs says so.
"""

import gzip
import io
import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

NAMES = ("web.log", "db.log")
PATTERNS = ("logs/*.log*", "logs/deep/**/*.log*")
MOST_LINES = 200
"""Of a file that is written again: readers see such a write as a whole."""


def line_of(number):
    return f"line {number:09}"


def as_lines(numbers):
    return "".join(f"{line_of(n)}\n" for n in numbers).encode()


def as_gzip(numbers):
    return gzip.compress(as_lines(numbers), mtime=0)


def as_parquet(numbers):
    data = io.BytesIO()
    table = pa.table({"value": [line_of(n) for n in numbers]})
    pq.write_table(table, data, compression="none", use_dictionary=False)
    return data.getvalue()


class Logs:
    """Files in `logs`, and in other folders beside it.

    Args:
        folder: Empty. `PATTERNS` are relative to it, and so is `logs/*.parquet`.
        rng: Decides what happens.
        are_read: Called with numbers of lines: whether these are read and acked for good.
        has_parquet: Whether somebody reads Parquet, too.

    Attributes:
        written: How many lines were written.
        done: How often each thing happened.
    """

    def __init__(self, folder, rng, are_read, *, has_parquet=False):
        self.folder, self.rng, self.are_read = folder / "logs", rng, are_read
        self.far, self.hidden = folder / "far", folder / "hidden"
        for one in (self.folder, self.far, self.hidden, self.folder / "deep"):
            one.mkdir(parents=True, exist_ok=True)
        (self.folder / "deep" / "circle").symlink_to("..")
        (self.folder / "far.log").symlink_to(self.far / "app.log")
        self.written = self._names = 0
        self.done = Counter()
        self.lines = {}
        self._unfinished = {}
        parquet = [self.add_parquet, self.replace_parquet] if has_parquet else []
        self._harm = [
            *(self.rename, self.rename, self.copy_and_cut, self.write_again, self.remove),
            *(self.reuse_inode, self.add_gzip, self.add_to_gzip, self.link, *parquet),
        ]

    @property
    def kinds(self):
        """What may happen: the keys of `done`."""
        return {kind.__name__ for kind in self._harm}

    def step(self, harm=0.5):
        """Write some lines, and with this chance do something else."""
        path = self.rng.choice([self.folder / name for name in NAMES] + [self.far / "app.log"])
        self.append(path, self.rng.randint(1, 40))
        if self.rng.random() < harm:
            self.harm()

    def harm(self):
        """Do one thing to one file, if it can be done."""
        kind = self.rng.choice(self._harm)
        if kind():
            self.done[kind.__name__] += 1

    def numbers(self, most):
        """Those of the next lines."""
        first, self.written = self.written, self.written + most
        return range(first, self.written)

    def append(self, path, most):
        """Write lines to a file; a new one has its first line at least."""
        numbers = self.numbers(most)
        with path.open("ab", buffering=0) as file:
            file.write(as_lines(numbers))
        self.lines.setdefault(path, []).extend(numbers)

    def finish(self):
        """Make whole what is half written."""
        for path, data in self._unfinished.items():
            with path.open("ab", buffering=0) as file:
                file.write(data)
        self._unfinished.clear()

    # What happens. Each returns whether it could be done.

    def rename(self):
        """As log rotation does."""
        path = self.rng.choice([p for p in self.lines if p.name in (*NAMES, "app.log")])
        if path.parent == self.far and not self.are_read(self.lines[path]):
            return False  # no pattern matches its next name
        old = [p for p in self.lines if p.parent == path.parent and p.stem == path.name]
        for one in sorted(old, key=lambda p: -int(p.suffix[1:])):
            self._move(one, one.with_suffix(f".{int(one.suffix[1:]) + 1}"))
        self._move(path, path.with_name(f"{path.name}.1"))
        return True

    def copy_and_cut(self):
        """`copytruncate`; the copy is not read."""
        path = self._read(lambda p: p.suffix == ".log")
        if path is None:
            return False
        (self.hidden / "copy").write_bytes(path.read_bytes())
        os.truncate(path, 0)
        self.lines[path] = []
        if self.rng.random() < 0.5:
            self.append(path, self.rng.randint(1, 80))
        return True

    def write_again(self):
        """In its place, with as many bytes."""
        path = self._read(lambda p: p.suffix == ".log" and 0 < len(self.lines[p]) <= MOST_LINES)
        if path is None:
            return False
        self.lines[path] = list(self.numbers(len(self.lines[path])))
        with path.open("r+b", buffering=0) as file:
            file.write(as_lines(self.lines[path]))
        return True

    def remove(self):
        """A file that is read."""
        path = self._read(lambda p: p.suffix != ".log")
        if path is None:
            return False
        path.unlink()
        del self.lines[path]
        return True

    def reuse_inode(self):
        """A file is removed, and another one gets its inode, as some file systems do at once."""
        path = self._read(lambda p: p.parent == self.folder and p.suffix != ".gz")
        if path is None:
            return False
        del self.lines[path]
        path.rename(self.hidden / "removed")
        kind, write = (".parquet", as_parquet) if path.suffix == ".parquet" else (".log", as_lines)
        numbers = list(self.numbers(self.rng.randint(1, 80)))
        data = write(numbers)
        with (self.hidden / "removed").open("r+b", buffering=0) as file:
            file.truncate()
            file.write(data)
        new = self._new(kind)
        (self.hidden / "removed").rename(new)
        self.lines[new] = numbers
        return True

    def add_gzip(self):
        """Whole, or in two halves."""
        numbers, path = list(self.numbers(self.rng.randint(1, 300))), self._new(".log.gz")
        data = as_gzip(numbers)
        if self.rng.random() < 0.5:
            (self.hidden / "new").write_bytes(data)
            (self.hidden / "new").rename(path)
        else:
            half = self.rng.randint(1, len(data) - 1)
            path.write_bytes(data[:half])
            self._unfinished[path] = data[half:]
        self.lines[path] = numbers
        return True

    def add_to_gzip(self):
        """The rest of a half, or more."""
        path = self._any(lambda p: p.suffix == ".gz")
        if path is None:
            return False
        numbers = []
        data = self._unfinished.pop(path, None)
        if data is None:
            numbers = list(self.numbers(self.rng.randint(1, 300)))
            data = as_gzip(numbers)
        with path.open("ab", buffering=0) as file:
            file.write(data)
        self.lines[path] += numbers
        return True

    def link(self):
        """One more name for a file."""
        path = self._any(lambda p: p.suffix in (".log", ".gz"))
        if path is None:
            return False
        link = self.folder / f"link-{self.rng.randint(0, 3)}{''.join(path.suffixes)}"
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        return True

    def add_parquet(self):
        """Under another name first."""
        self._put_parquet(self._new(".parquet"), self.rng.randint(1, 300))
        return True

    def replace_parquet(self):
        """By another file of its name, or in its place with as many bytes."""
        path = self._read(lambda p: p.suffix == ".parquet")
        if path is None:
            return False
        self._put_parquet(path, len(self.lines[path]))
        return True

    def _put_parquet(self, path, most):
        numbers = list(self.numbers(most))
        (self.hidden / "new").write_bytes(as_parquet(numbers))
        (self.hidden / "new").rename(path)
        self.lines[path] = numbers

    def _new(self, suffix):
        self._names += 1
        folder = self.rng.choice([self.folder, self.folder / "deep"])
        if suffix == ".parquet":
            folder = self.folder
        return folder / f"new-{self._names}{suffix}"

    def _move(self, path, new):
        path.rename(new)
        self.lines[new] = self.lines.pop(path)

    def _any(self, is_such):
        found = sorted(p for p in self.lines if is_such(p))
        return self.rng.choice(found) if found else None

    def _read(self, is_such):
        """A file that is read as far as it goes."""
        path = self._any(is_such)
        if path is None or path in self._unfinished or not self.are_read(self.lines[path]):
            return None
        return path
