"""Every example on Spark, by the commands of its README, in a shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.examples import EXAMPLES, NAMES, script

SECONDS = 240

pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("name", NAMES)
def test_the_output_is_that_of_the_readme(name, tmp_path):
    commands, output = script(name)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", commands],
        cwd=shutil.copytree(EXAMPLES / name, tmp_path / name),
        env={**os.environ, "PATH": path, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == output, done.stderr
    assert done.returncode == 0, done.stderr
