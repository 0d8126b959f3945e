"""Which reasons conditions may have, by docs/operations.md, and which they were seen to have."""

import re
import subprocess
import threading

from support.pages import ROOT

PAGE = ROOT / "docs" / "operations.md"
_REASONS = '{{with .status}}{{range .conditions}}{{.reason}} {{end}}{{end}}{{"\\n"}}'


def explained():
    """The reasons that the page explains."""
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", "".join(rows)))


class Seen:
    """Watches all topologies of the cluster for as long as it is open.

    Attributes:
        reasons: Every reason that any condition of any topology has had.
    """

    def __init__(self):
        self.reasons = set()
        self._process = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._process.kill()
        self._thread.join(10)

    def _run(self):
        while not self._closed.is_set():
            command = [
                "kubectl",
                "get",
                "topologies",
                "-A",
                "--watch",
                "-o",
                f"go-template={_REASONS}",
            ]
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            with self._process:
                for line in self._process.stdout:
                    self.reasons |= set(line.split())
            self._closed.wait(0.5)  # the API server was away
