"""Packages of others that go along, and those that the image has."""

import re
import tomllib

import pytest

from fulmen.topology.code.packages import image_packages, normalized
from support.docs.pages import ROOT

HASHED = (
    r"^([^\s=#]+)==(\S+) \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}$"
)


@pytest.mark.parametrize(
    ("image", "project"),
    [("runtime", "pyproject.toml"), ("operator", "operator/pyproject.toml")],
)
def test_an_image_has_what_it_needs_in_the_versions_that_are_tested(image, project):
    """A build of an image gets what is in this file and nothing else, by its hashes."""
    text = (ROOT / "requirements" / f"{image}.txt").read_text()
    found = re.findall(HASHED, text, re.MULTILINE)
    assert len(found) == text.count("==")
    pinned = re.findall(r"^([^\s=#]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(found) <= set(pinned)
    wants = tomllib.loads((ROOT / project).read_text())["project"]
    extras = wants.get("optional-dependencies", {})
    more = [extras[extra] for extra in extras if extra != "local"]  # the image has Java already
    names = {re.match(r"[\w.-]+", w)[0] for w in sum(more, wants["dependencies"])}
    packages = {normalized(name): version for name, version in found}
    assert {normalized(name) for name in names} - {"fulmen"} <= packages.keys()
    if image == "runtime":
        assert image_packages() == packages
