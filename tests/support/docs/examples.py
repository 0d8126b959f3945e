"""The examples: the commands that their READMEs show, and what these print."""

import re
from pathlib import Path

from support.docs import pages
from support.docs.pages import ROOT, blocks

EXAMPLES = ROOT / "examples"
NAMES = sorted(p.parent.name for p in EXAMPLES.glob("*/README.md") if "```console" in p.read_text())

SETTING = "set -e -o pipefail; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"


def commands(name):
    """The command lines of an example's README, each with the output that is shown for it."""
    for block in blocks(f"examples/{name}/README.md", "console"):
        yield from pages.commands(block)


def script(name):
    """The commands as a shell script, and all that they print."""
    lines, outputs = zip(*commands(name), strict=True)
    return "\n".join([SETTING, *lines, ""]), "".join(outputs)


def linked_examples():
    """The folders that the table of examples leads to."""
    table = (EXAMPLES / "README.md").read_text()
    return sorted(str(Path(link).parent) for link in re.findall(r"\]\(([\w./-]+)\)", table))
