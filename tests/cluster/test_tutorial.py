"""The last section of the tutorial, on pods: what its commands print."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.pages import blocks, commands, write_files

PAGE = "docs/tutorial.md"
SECONDS = 600
LOG = "python traffic.py 0 20000; echo 'no request at all!!'; echo gibberish"

pytestmark = pytest.mark.timeout(SECONDS + 300)


@pytest.fixture
def shell(kube, tmp_path):
    """Runs a script in a folder with the tutorial's files, with the test's namespace as context."""
    config = json.loads(kube.run("config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
    config["contexts"][0]["context"]["namespace"] = kube.namespace
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    folder = tmp_path / "access"
    folder.mkdir()
    write_files(PAGE, folder)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(script):
        done = subprocess.run(
            ["bash", "-c", f"set -e -o pipefail\n{script}"],
            cwd=folder,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(file)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_last_section_prints_what_the_page_shows(operator, shell):
    shell(f"({LOG}) > access.log")
    shown = [
        command
        for block in blocks(PAGE, "console")
        if "kubectl" in block.text
        for command in commands(block)
    ]
    lines, outputs = zip(*shown, strict=True)
    assert shell("\n".join(lines)) == "".join(outputs)
