"""A project's folder as one archive, for a machine that has no such folder.

The same files are the same bytes, whoever packs them, and whenever: the archive's digest says
whether the code has changed.
"""

import gzip
import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from fulmen.errors import CodeError
from fulmen.topology.resource.pods import ARCHIVE_NAME

MAX_UNPACKED_BYTES: Final = 256 * 1024 * 1024
"""More is no code: a mistake, or a file that was made to fill a disk."""
LEFT_OUT: Final = re.compile(r"(\..*|__pycache__|.*\.pyc|conftest\.py|test_.*\.py|.*_test\.py)")
"""Hidden files and folders, what Python compiles, and tests."""
LEFT_OUT_AT_THE_TOP: Final = re.compile(r"(tests|.*\.md)")
TOPOLOGY: Final = re.compile(rb"^kind:\s*Topology\b", re.MULTILINE)


def project_files(folder: Path, but: Path) -> list[Path]:
    """The files of a project that its code may need, in folders below as well, by name.

    Left out are hidden files and folders, compiled Python, tests, virtual environments and, at the
    top, Markdown, other topologies, and programs that are no Python.

    Args:
        folder: Where the code is.
        but: The topology's own file, which may be in it.
    """
    return sorted(_files_below(folder, folder, but.resolve(), frozenset()))


def _files_below(top: Path, folder: Path, but: Path, inside: frozenset[Path]) -> Iterator[Path]:
    real = folder.resolve()
    if real in inside or (folder / "pyvenv.cfg").exists():  # links that loop; an environment
        return
    for path in folder.iterdir():
        is_left_out = LEFT_OUT.fullmatch(path.name)
        if is_left_out or (folder == top and LEFT_OUT_AT_THE_TOP.fullmatch(path.name)):
            continue
        if path.is_dir():
            yield from _files_below(top, path, but, inside | {real})
        elif path.resolve() != but and not (folder == top and _is_no_code(path)):
            yield path


def _is_no_code(file: Path) -> bool:
    """Whether a file at the top is a program in another language, or a topology."""
    if file.suffix in (".yaml", ".yml") and file.is_file():
        return TOPOLOGY.search(file.read_bytes()) is not None
    return file.suffix != ".py" and file.is_file() and os.access(file, os.X_OK)


def pack(folder: Path, files: list[Path]) -> bytes:
    """These files of a folder, as a compressed archive.

    Raises:
        OSError: One can't be read.
    """
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(mode="w", fileobj=compressed, format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            content = file.read_bytes()
            member = tarfile.TarInfo(file.relative_to(folder).as_posix())
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def unpacked(folder: Path, into: Path) -> Path:
    """The folder that code is in: `into`, with what the archive of a folder has, if there is one.

    Args:
        folder: Has files, or an archive.
        into: Where to write what is in the archive, over what is there.

    Raises:
        CodeError: It is no archive, has more than files and folders, or too many bytes.
    """
    file = folder / ARCHIVE_NAME
    if not file.exists():
        return folder
    try:
        with tarfile.open(file, "r:gz") as archive:
            _write(archive, into)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        message = f"{ARCHIVE_NAME} can't be unpacked: {str(error) or type(error).__name__}"
        raise CodeError(message, _AGAIN) from error
    return into


_AGAIN = "Make it with fulmen manifest FILE."


def _write(archive: tarfile.TarFile, into: Path) -> None:
    """All of an archive, after a look at each name: it may come from anywhere."""
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
        target.write_bytes(content.read())
