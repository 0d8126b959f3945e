"""Builds the images and gives them to the cluster, with whatever commands there are for that.

IMAGE_BUILD: builds an image, such as `docker build`; gets --target, -t and the folder. Empty: the
images exist. IMAGE_LOAD: gives an image to the cluster, such as `kind load docker-image`; gets its
name. Empty: building does that already.
"""

import os
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
OPERATOR = "fulmen-operator:dev"
RUNTIME = "fulmen:dev"
NEXT_OPERATOR = f"docker.io/library/{OPERATOR}"
"""The same image. What compares names takes it for another one, as if it were the next version."""
BUILD_SECONDS = 3000


def build():
    """Build both, and load them. A load takes as long as half a build."""
    build_one("operator", OPERATOR)
    build_one("tested", RUNTIME)


def build_one(target, name):
    """Build one, and load it."""
    builder = os.environ.get("IMAGE_BUILD", "docker build")
    loader = os.environ.get("IMAGE_LOAD", "")
    if builder:
        call([*shlex.split(builder), "--target", target, "-t", name, str(ROOT)])
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
