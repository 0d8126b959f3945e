"""Builds the images and gives them to the cluster, with whatever commands there are for that.

IMAGE_BUILD: builds an image, such as `docker build`; gets --target, -t and the folder. Empty: the
images exist. IMAGE_LOAD: gives an image to the cluster, such as `kind load docker-image`; gets its
name. Empty: building does that already.
"""

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTED = ROOT / "tests" / "cluster" / "image"
"""What the runtime's image has besides, where tests run it."""
OPERATOR = "fulmen-operator:dev"
BUILT = "fulmen:built"
RUNTIME = "fulmen:dev"
"""`BUILT` with what `TESTED` adds; this is the one that pods run."""
NEXT_OPERATOR = "fulmen-operator:next"
"""The same, under the tag of another version."""
BUILD_SECONDS = 1200


def build():
    """Build all of them, and load them."""
    build_one("operator", OPERATOR)
    build_one("operator", NEXT_OPERATOR)
    build_one("runtime", BUILT)
    build_one("tested", RUNTIME, TESTED)


def build_one(target, name, folder=ROOT):
    """Build one, and load it."""
    builder = os.environ.get("IMAGE_BUILD", "docker build")
    loader = os.environ.get("IMAGE_LOAD", "")
    if builder:
        call([*shlex.split(builder), "--target", target, "-t", name, str(folder)])
    if loader:
        call([*shlex.split(loader), name])


def call(command, seconds=BUILD_SECONDS):
    """Run a command; say what it said if it fails."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{shlex.join(command)} failed:\n{done.stdout[-5000:]}")
    return done.stdout
