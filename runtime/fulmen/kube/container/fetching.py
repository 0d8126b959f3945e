"""Code that is kept in a store: fetched by each container for itself, once, and checked.

`python -m fulmen.kube.container.fetching` does so for a worker, before its Java begins.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fulmen.checkpoint import Store
from fulmen.errors import CheckpointError, CodeError, Denied, FulmenError, NotFound, Unreachable
from fulmen.kube.contract import CODE_SHA256_ENV, CODE_URI_ENV, UNPACKED_FOLDER
from fulmen.topology.code.packing import unpack

_RETRY = (
    "A driver tries it again by itself. After a change that was refused for this, change"
    " spec.restartNonce."
)


def fetched(environ: Mapping[str, str], into: Path = Path(UNPACKED_FOLDER)) -> Path | None:
    """Fetch the code that the environment names, and return its folder; None if it names none.

    Args:
        environ: The environment of the container: the place of the code, its digest, and the
            variables that the store needs.
        into: The folder to unpack to. Code that is there already is not fetched again.

    Raises:
        CodeError: The archive has another digest, or can't be unpacked.
        FulmenError: The store does not give it: that may change.
    """
    uri, wanted = environ.get(CODE_URI_ENV), environ.get(CODE_SHA256_ENV, "")
    if not uri:
        return None
    done = into.with_name(f"{into.name}.sha256")
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return into
    archive = into.with_name(f"{into.name}.tar.gz")
    found = _download(uri, archive)
    if found != wanted:
        archive.unlink()
        raise CodeError(
            f"spec.code.sha256: {uri} has the SHA-256 {found}, but {wanted} was asked for",
            "Upload the archive that was meant, or write its digest. An archive that is in use"
            " must not be overwritten: give a new one a new name.",
        )
    unpack([archive], into)
    archive.unlink()
    done.write_text(wanted, encoding="utf-8")
    return into


def _download(uri: str, file: Path) -> str:
    """Write the object at a URI to a file. Returns its SHA-256."""
    folder, _, key = uri.rpartition("/")
    digest = hashlib.sha256()
    try:
        with file.open("wb") as out:
            for chunk in Store.open(folder).get_chunks(key):
                digest.update(chunk)
                out.write(chunk)
    except NotFound:
        raise FulmenError(f"spec.code.uri: there is no {uri}. Upload it. {_RETRY}") from None
    except (Unreachable, Denied) as error:
        cause = error.cause.rstrip(".")
        raise FulmenError(f"spec.code.uri: {uri} can't be read: {cause}. {_RETRY}") from error
    except OSError as error:
        raise FulmenError(f"{file} can't be written: {error.strerror}") from error
    except CheckpointError as error:
        cause = str(error).removeprefix("checkpoint ")
        raise FulmenError(f"spec.code.uri: it can't be read: {cause} {_RETRY}") from error
    return digest.hexdigest()


if __name__ == "__main__":
    try:
        fetched(os.environ)
    except FulmenError as e:
        sys.exit(str(e))
