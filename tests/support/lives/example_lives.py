"""An example that runs as a user runs it, and is killed."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from support.docs.examples import EXAMPLES
from support.lives.processes import DRIVER, send, victims
from support.runs.spark_runs import wait_until

SECONDS = 120


class ExampleLife:
    """An example in a folder of its own, continued from its checkpoint after each kill.

    Args:
        name: The example's folder; or another one, by its whole path.
        folder: An empty one.
        variables: Of the environment, in addition to the test's.
        options: Of `fulmen run`, in addition.
        file: The topology's.
        seconds: What it is waited for at most, each time.
    """

    def __init__(self, name, folder, variables, options=(), file="topology.yaml", seconds=SECONDS):
        self.folder = shutil.copytree(EXAMPLES / name, folder / "example")
        self._variables, self._options, self._file = variables, options, file
        self.process, self._seconds = None, seconds

    def start(self):
        """Start it, or continue it."""
        fulmen = str(Path(sys.executable).parent / "fulmen")
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [fulmen, "run", self._file, "--checkpoint", "state", *self._options],
                cwd=self.folder,
                env={**os.environ, **self._variables, "XDG_STATE_HOME": str(self.folder / "home")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def output(self):
        """All that it has said."""
        return (self.folder / "log").read_text()

    def wait_for(self, is_done, what):
        """Until that is so, while it runs."""

        def is_done_by_now():
            assert self.process.poll() is None, self.output()
            return is_done()

        wait_until(is_done_by_now, what, self._seconds)

    def kill(self, kind, rng):
        """Kill a process of it; continue it if that was the driver."""
        send(rng.choice(sorted(victims(self.process, kind))), signal.SIGKILL)
        if kind == DRIVER:
            self.process.wait()
            self.start()

    def end(self):
        """Drain it."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(self._seconds) == 0, self.output()

    @contextmanager
    def running(self):
        """It runs meanwhile."""
        self.start()
        try:
            yield
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(self._seconds)
