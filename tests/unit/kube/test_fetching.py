"""Code that is kept in a store, as a container fetches it."""

import hashlib
import io
import itertools
import tarfile

import pytest

from fulmen.checkpoint import Store
from fulmen.errors import CodeError, FulmenError
from fulmen.kube.container.fetching import fetched
from fulmen.kube.container.preparation import code_folder

_names = itertools.count()


@pytest.fixture(params=["file", "memory"])
def stored(request, tmp_path):
    """A store with an archive of one file: its URI, and the environment of a container."""
    place = tmp_path.as_uri() if request.param == "file" else f"memory://fetching-{next(_names)}/x"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("shop/prices.csv")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"a,1"))
    Store.open(place).put("code-1.tar.gz", packed.getvalue())
    return {
        "FULMEN_CODE_URI": f"{place}/code-1.tar.gz",
        "FULMEN_CODE_SHA256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }


def test_an_archive_is_fetched_once_and_unpacked(stored, tmp_path):
    into = tmp_path / "code"
    assert fetched(stored, into) == into
    assert (into / "shop" / "prices.csv").read_bytes() == b"a,1"
    gone = {**stored, "FULMEN_CODE_URI": "memory://gone/code.tar.gz"}
    assert code_folder(tmp_path / "mounted", into, gone) == into
    assert not (tmp_path / "code.tar.gz").exists()


def test_without_a_place_nothing_is_fetched(tmp_path):
    assert fetched({"FULMEN_CODE_URI": ""}, tmp_path / "code") is None


def test_an_archive_that_was_not_asked_for_is_not_unpacked(stored, tmp_path):
    wrong = {**stored, "FULMEN_CODE_SHA256": "0" * 64}
    with pytest.raises(CodeError, match=r"^spec\.code\.sha256: .* has the SHA-256 .*0{64} was ask"):
        fetched(wrong, tmp_path / "code")
    assert not (tmp_path / "code").exists()
    assert fetched(stored, tmp_path / "code") is not None


def test_an_archive_that_is_not_there_may_yet_come(stored, tmp_path):
    uri = stored["FULMEN_CODE_URI"].replace("code-1", "code-2")
    with pytest.raises(FulmenError, match=r"there is no .*code-2\.tar\.gz\. Upload it") as caught:
        fetched({**stored, "FULMEN_CODE_URI": uri}, tmp_path / "code")
    assert "A driver tries it again by itself" in str(caught.value)
    assert not isinstance(caught.value, CodeError)


@pytest.mark.parametrize("full", ["code.tar.gz", "code/shop/prices.csv"])
def test_a_full_disk_is_no_mistake_in_the_code(stored, tmp_path, full):
    (tmp_path / full).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / full).symlink_to("/dev/full")
    with pytest.raises(FulmenError, match="No space left on device") as caught:
        fetched(stored, tmp_path / "code")
    assert not isinstance(caught.value, CodeError)
    (tmp_path / full).unlink()
    assert fetched(stored, tmp_path / "code") is not None
