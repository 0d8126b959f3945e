"""The tutorial on Spark, in a shell: every file and every command, up to the cluster's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.examples import SETTING
from support.docs.pages import blocks, commands

PAGE = "docs/tutorial.md"
SECONDS = 900

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(SECONDS + 60)]


def steps():
    """The page as lines of a script, each with what it has to print."""
    for block in blocks(PAGE):
        if "kubectl" in block.text:
            return
        if block.file:
            yield f"cat >> {block.file} <<'END_OF_FILE'\n{block.text}END_OF_FILE", ""
        elif block.language == "console":
            for line, output in commands(block):
                shown = output or line.endswith("&") or ">" in line
                yield (line if shown else f"{line} > unseen.out"), output


@pytest.mark.matrix(share=1 / 3, name="long runs", cell="tutorial")
def test_every_step_prints_what_the_page_shows(tmp_path):
    lines, outputs = zip(*steps(), strict=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    folder = tmp_path / "access"
    folder.mkdir()
    done = subprocess.run(
        ["bash", "-c", "\n".join([SETTING, *lines, ""])],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "100", "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    said = [line.rstrip() for line in done.stdout.splitlines()]
    assert said == "".join(outputs).splitlines(), done.stderr
    assert done.returncode == 0, done.stderr
