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
    """What a command line prints: `fulmen` in this process, and what its output is piped into.

    Args:
        line: The command line.
        options: Further options of `fulmen run`, besides `--in-process`.
    """
    command, _, rest = line.partition(" | ")
    program, *arguments = shlex.split(command)
    if program != "fulmen":
        return shell(line)
    if arguments[0] == "run":
        arguments += ["--in-process", *options]
    result = CliRunner().invoke(main, arguments, prog_name="fulmen")
    assert result.exit_code == 0, result.output
    return shell(rest, result.stdout) if rest else result.stdout
