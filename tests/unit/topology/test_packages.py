"""Packages of others that go along, and those that the image has."""

import re
import subprocess
import sys

from fulmen.topology.code.packages import image_packages, normalized
from support.pages import ROOT


def test_the_list_of_the_images_packages_is_that_of_its_dockerfile():
    constraints = (ROOT / "constraints.txt").read_text()
    pinned = re.findall(r"^([^\s=#]+)==(\S+)", constraints, re.MULTILINE)
    assert {*image_packages().items()} <= {(normalized(name), v) for name, v in pinned}
    [extras] = re.findall(r"/build/requirements ([a-z ]+) >", (ROOT / "Dockerfile").read_text())
    wanted = subprocess.run(
        [sys.executable, ROOT / "scripts" / "requirements", *extras.split()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = re.findall(r"^[A-Za-z0-9._-]+", wanted, re.MULTILINE)
    assert {normalized(name) for name in names} <= image_packages().keys()
