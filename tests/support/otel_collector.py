"""The receiver of OpenTelemetry's collector on a free port: tests read the spans that it has got.

`scripts/test-servers` builds it of tests/support/collector; where it is absent, tests that use it
are skipped and say so (in CI that is a failure).
"""

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.kafka_server import folder_of_servers
from support.ports import free_port

VERSION = "0.161.0"
START_SECONDS, END_SECONDS = 20, 20


@dataclass
class Collector:
    """One that runs.

    Attributes:
        url: What `OTEL_EXPORTER_OTLP_ENDPOINT` has to be.
    """

    url: str
    _file: object
    _log: object
    _process: subprocess.Popen

    def ended(self):
        """End it, as a service manager does: (attributes of the resource, its spans) of each."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(END_SECONDS) == 0, self._log.read_text()
        requests = map(json.loads, self._file.read_text().splitlines())
        parts = chain.from_iterable(request["resourceSpans"] for request in requests)
        return [
            (
                attributes(part["resource"]),
                [span for scope in part["scopeSpans"] for span in scope["spans"]],
            )
            for part in parts
        ]


@contextmanager
def running_collector(folder):
    """A collector that keeps its files in a folder."""
    binary = folder_of_servers() / f"otlp-receiver-{VERSION}"
    if not binary.is_file():
        pytest.skip("no collector of traces was tried: `scripts/test-servers` builds it")
    address, spans, log = f"127.0.0.1:{free_port()}", folder / "spans.json", folder / "receiver.log"
    with log.open("wb") as output:
        process = subprocess.Popen([binary, address, spans], stdout=output, stderr=output)
    try:
        url = f"http://{address}"
        wait_until_it_answers(url, process, log)
        yield Collector(url, spans, log, process)
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(url, process, log):
    """Return when it listens."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urlopen(url, timeout=1).close()
        except HTTPError as refused:  # an answer: it has no page
            refused.close()
            return
        except OSError:
            time.sleep(0.02)
    pytest.fail(f"the collector does not answer at {url}. It said:\n{log.read_text()}")


def attributes(of):
    """The attributes of a span, an event or a resource: name -> value."""
    values = {one["key"]: one["value"] for one in of.get("attributes", [])}
    return {
        name: int(value["intValue"]) if "intValue" in value else next(iter(value.values()))
        for name, value in values.items()
    }
