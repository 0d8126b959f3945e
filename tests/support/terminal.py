"""A command in a terminal of its own, as a person would use it."""

import os
import re
import select
import subprocess
import sys
import time

# The first terminal that the leader of a session opens becomes the session's.
TAKE_TERMINAL = """
import os, sys
os.close(os.open(sys.argv[1], os.O_RDWR))
os.execvp(sys.argv[2], sys.argv[2:])
"""
CONTROL_C = b"\x03"
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """Runs a command in a pseudo terminal."""

    def __init__(self, command, env, folder, rows=30, columns=120):
        self._shown = b""
        self._fd, terminal = os.openpty()
        name = os.ttyname(terminal)
        env = {**env, "LINES": str(rows), "COLUMNS": str(columns), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, name, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal)

    @property
    def output(self):
        """All that it has shown so far, without colors and the like."""
        return CONTROLS.sub("", self._shown.decode(errors="replace"))

    def wait_for(self, pattern, seconds):
        """Read until the output has something like this."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.output)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.output[-4000:]!r}"
            assert self._read(0.5), f"ended without {pattern!r}: {self.output[-4000:]!r}"
        return found

    def press(self, keys=CONTROL_C):
        """Type."""
        os.write(self._fd, keys)

    def end(self, seconds):
        """Read until the command ends. Returns its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.5):
            assert time.monotonic() < deadline, f"does not end: {self.output[-4000:]!r}"
        return self.process.wait(10)

    def close(self):
        """Kill what is still there."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)

    def _read(self, seconds):
        """Read what there is; whether there may be more."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if ready:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # Linux: the last process has closed its side
                return False
            self._shown += data
            return bool(data)
        return True
