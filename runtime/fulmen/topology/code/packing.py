"""A project's folder as one archive, for a machine that has no such folder.

The same files are the same bytes, whoever packs them, and whenever: the archive's digest says
whether the code has changed.
"""

import errno
import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from fulmen.errors import CodeError, FulmenError
from fulmen.topology.resource.spec.pods import ARCHIVE_NAME

MAX_UNPACKED_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Half of what a pod may write. More is a mistake, or a file that was made to fill a disk."""
LEFT_OUT: Final = re.compile(
    r"(\..*|__pycache__|node_modules|.*\.pyc|conftest\.py|test_.*\.py|.*_test\.py)"
)
"""Hidden files and folders, what Python compiles, packages of JavaScript, and tests."""
TESTS: Final = "tests"
"""A folder that is left out at the top of a project."""
CODE: Final = (".py", ".avsc")


def project_files(folder: Path, include: Sequence[str] = ()) -> list[Path]:
    """The files of a project that are its code: modules, schemas of Avro, packages with all files.

    Left out are hidden files and folders, compiled Python, tests and virtual environments. Other
    files at the top and folders without Python may be anything, such as a checkpoint or results.

    Args:
        folder: The folder of the code.
        include: More of its files or folders, as patterns such as `data/*.csv`.

    Raises:
        CodeError: A pattern leads out of the folder, or matches nothing.
    """
    found: set[Path] = set()
    for path in folder.iterdir():
        if LEFT_OUT.fullmatch(path.name) or path.name == TESTS:
            continue
        if not path.is_dir():
            found |= {path} if path.suffix in CODE else set()
        else:
            below = list(_below(path, frozenset({folder.resolve()})))
            found.update(below if any(file.suffix == ".py" for file in below) else ())
    for pattern in include:
        found.update(_included(folder, pattern))
    return sorted(found)


def led_out(folder: Path, files: Iterable[Path], include: Sequence[str] = ()) -> dict[str, Path]:
    """Links that would include hidden files, or files outside of the project, and their targets.

    Of several ways to a target, only the shortest is told.

    Args:
        folder: The folder of the code.
        files: All included files.
        include: Patterns. A link that one names exactly, without `*`, is intended.
    """
    root = folder.resolve()

    def is_other(real: Path) -> bool:
        is_inside = real.is_relative_to(root)
        return not is_inside or any(map(LEFT_OUT.fullmatch, real.relative_to(root).parts))

    named = [(folder / pattern).resolve() for pattern in include if not has_magic(pattern)]
    meant = [real for real in named if is_other(real)]
    found: dict[Path, str] = {}
    for file in sorted(files, key=lambda one: len(one.parts)):
        real = file.resolve()
        if is_other(real) and not any(real.is_relative_to(one) for one in meant):
            inner = file.relative_to(folder)
            steps = [inner, *inner.parents][-2::-1]
            link = next(step for step in steps if is_other((folder / step).resolve()))
            found.setdefault((folder / link).resolve(), link.as_posix())
    return {link: target for target, link in found.items()}


def _included(folder: Path, pattern: str) -> Iterator[Path]:
    if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
        raise CodeError(f"{pattern!r} leads out of the folder {str(folder)!r}")
    found = list(folder.glob(pattern))
    matching = [
        path
        for path in found
        if not any(LEFT_OUT.fullmatch(part) for part in path.relative_to(folder).parts)
    ]
    if found and not matching:
        raise CodeError(f"{pattern!r} means only what is never taken along, such as hidden files")
    if not matching:
        raise CodeError(f"there is no {pattern!r} in the folder {str(folder)!r}")
    for path in matching:
        yield from _below(path, frozenset()) if path.is_dir() else [path]


def _below(folder: Path, inside: frozenset[Path]) -> Iterator[Path]:
    """All files in and below a folder; links that loop are followed once."""
    real = folder.resolve()
    if real in inside or _is_environment(folder):
        return
    for path in folder.iterdir():
        if LEFT_OUT.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from _below(path, inside | {real})
        else:
            yield path


def _is_environment(folder: Path) -> bool:
    """Whether a folder is an environment with packages, of venv or conda."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").exists()


def left_behind(folder: Path, files: Iterable[Path], but: Iterable[Path]) -> list[str]:
    """Names in a folder that are not included and may be data; folders' end with a slash.

    Args:
        folder: The folder of the code.
        files: The included files.
        but: Files that the code does not need, such as the topology's own file.
    """
    useless = {path.resolve() for path in but}
    taken = {folder / file.relative_to(folder).parts[0] for file in files}
    rest = [
        path
        for path in sorted(folder.iterdir())
        if path not in taken
        and not LEFT_OUT.fullmatch(path.name)
        and path.name != TESTS
        and path.suffix != ".md"
        and path.resolve() not in useless
        and not _is_environment(path)
    ]
    folders = [f"{path.name}/" for path in rest if path.is_dir()]
    return folders + [path.name for path in rest if path.is_file() and not os.access(path, os.X_OK)]


def pack(files: Mapping[str, Path], into: BinaryIO) -> None:
    """Write a compressed archive.

    Args:
        files: Name in the archive -> file.
        into: The file to write to.

    Raises:
        OSError: A file can't be read, or the archive can't be written.
    """
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=into, mtime=0) as compressed,
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, file in files.items():
            with file.open("rb") as content:
                member = tarfile.TarInfo(name)
                status = os.fstat(content.fileno())
                member.size = status.st_size
                # no more of the mode: it depends on a umask
                member.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
                archive.addfile(member, content)


def unpacked(folder: Path, into: Path) -> Path:
    """Unpack the archive of a folder, if there is one, and return the folder with the code.

    Args:
        folder: A folder with files, an archive, or the parts of one.
        into: The folder to unpack to; existing files are replaced.

    Raises:
        CodeError: It is no archive, has more than files and folders, or too many bytes.
        FulmenError: There is no room for it.
    """
    whole = folder / ARCHIVE_NAME  # beside which there may be others, such as its checksum
    parts = [whole] if whole.exists() else sorted(folder.glob(f"{ARCHIVE_NAME}.[0-9]"))
    if not parts:
        return folder
    unpack(parts, into)
    return into


def unpack(parts: Sequence[Path], into: Path) -> None:
    """Unpack an archive into a folder; existing files are replaced.

    Args:
        parts: The archive, in one file or in several in their order.
        into: The folder.

    Raises:
        CodeError: It is no archive, has more than files and folders, or too many bytes.
        FulmenError: There is no room for it.
    """
    try:
        with (
            _joined(parts) as content,
            gzip.GzipFile(fileobj=content) as compressed,
            tarfile.open(fileobj=compressed, mode="r:") as archive,
        ):
            archive.getmembers()
            while compressed.read(_CHUNK):  # to its end, where gzip compares its checksum
                pass
            _write(archive, into)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        message = f"{ARCHIVE_NAME} can't be unpacked: {str(error) or type(error).__name__}"
        if isinstance(error, OSError) and error.errno in _NO_ROOM:  # which is not the archive's
            raise FulmenError(message) from error
        raise CodeError(message, _AGAIN) from error


def _joined(parts: Sequence[Path]) -> BinaryIO:
    """The bytes of an archive. Parts have come through ConfigMaps, so they are small."""
    if len(parts) == 1:
        return parts[0].open("rb")
    return io.BytesIO(b"".join(part.read_bytes() for part in parts))


_CHUNK: Final = 64 * 1024
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_AGAIN = "Make it with fulmen manifest FILE."


def _write(archive: tarfile.TarFile, into: Path) -> None:
    """Write the files of an archive, after a check of each name: it may come from anywhere."""
    members = archive.getmembers()
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
            message = f"{ARCHIVE_NAME} has {member.name!r}, which is no file or folder inside of it"
            raise CodeError(message, _AGAIN)
    size = sum(member.size for member in members)
    if size > MAX_UNPACKED_BYTES:
        raise CodeError(
            f"{ARCHIVE_NAME} has {size:,} bytes when it is unpacked, but at most"
            f" {MAX_UNPACKED_BYTES:,} are allowed"
        )
    for member in members:
        target = into / member.name
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        content = archive.extractfile(member)
        assert content is not None  # it is a file
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        if member.mode & stat.S_IXUSR:
            target.chmod(0o755)
