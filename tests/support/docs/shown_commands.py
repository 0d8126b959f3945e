"""Commands that pages show, run in this process: what they print."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from fulmen.cli.main import main


def shell(line, content=None):
    """What a command line prints in a shell, with this Python first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line],
        input=content,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert done.returncode == 0, line
    return done.stdout


def output_of(line, options=()):
    """What a command line prints: `fulmen` in this process, with what is piped into and out of it.

    Args:
        line: The command line.
        options: Further options of `fulmen run`, besides `--in-process`.
    """
    before, pipe, after = f" | {line}".partition(" | fulmen ")
    if not pipe:
        return shell(line)
    typed = shell(before.removeprefix(" | ")) if before else None
    command, _, rest = f"fulmen {after}".partition(" | ")
    _, *arguments = shlex.split(command)
    if arguments[0] == "run":
        arguments += ["--in-process", *options]
    result = CliRunner().invoke(main, arguments, input=typed, prog_name="fulmen")
    assert result.exit_code == 0, result.output
    return shell(rest, result.stdout) if rest else result.stdout
