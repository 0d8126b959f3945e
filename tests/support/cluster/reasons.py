"""Which reasons conditions may have, by docs/conditions.md, and which they were seen to have."""

import os
import re
import subprocess
import threading
from pathlib import Path

from support.docs.pages import ROOT

PAGE = ROOT / "docs" / "conditions.md"
_REASONS = '{{with .status}}{{range .conditions}}{{.reason}} {{end}}{{end}}{{"\\n"}}'


def explained():
    """The reasons that the page explains."""
    _, _, table = PAGE.read_text(encoding="utf-8").partition("<!-- reasons: ")
    table, _, _ = table.partition("<!-- end of reasons -->")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", "".join(rows)))


class Seen:
    """Watches all topologies of the cluster for as long as it is open.

    Args:
        folder: Others that watch the same cluster write there at their end what they have seen.
            None: there are none.

    Attributes:
        reasons: Every reason that any condition of any topology has had, also by the others.
    """

    def __init__(self, folder=None):
        self._file = folder and Path(folder, f"reasons-{os.getpid()}")
        earlier = Path(folder).glob("reasons-*") if folder else ()
        self.reasons = {reason for file in earlier for reason in file.read_text().split()}
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
        if self._file:
            self._file.write_text(" ".join(sorted(self.reasons)))

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
