"""A disk that is small enough to be filled: a file system in memory, which takes root."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size="12m"):
    """A file system of this size in a new folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "fulmen-test", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder, how):
    """Make it read-only ("ro"), or not ("rw")."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def fill(folder):
    """Leave no room. Gives the file that takes it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            return ballast
