"""A real S3 server for tests: versitygw on a free port, over a folder that is removed afterwards.

It is one binary, installed with

    CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

into `$(go env GOPATH)/bin`, which is looked into as well as PATH. `scripts/test-servers` does that.
In tests/engine it is the fixture `s3_server`; where the binary is absent, tests that use it are
skipped and say so (in CI that is a failure).
"""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.servers.ports import free_port

_DENIED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
ACCESS_KEY, SECRET_KEY = "fulmen-test", "fulmen-test-secret"
BUCKET = "fulmen"


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket.

    Attributes:
        url: Of the endpoint.
        folder: Where it keeps buckets: `folder / BUCKET / key` is an object.
    """

    url: str
    folder: Path

    def environment(self) -> dict[str, str]:
        """The variables by which a process finds it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def uri(self, prefix: str) -> str:
        """The URI of a checkpoint in the bucket."""
        return f"s3://{BUCKET}/{prefix}"


def find_versitygw() -> str | None:
    """The path of the binary, or None."""
    if found := shutil.which("versitygw"):
        return found
    gopath = os.environ.get("GOPATH") or Path.home() / "go"
    return shutil.which("versitygw", path=str(Path(gopath) / "bin"))


@contextmanager
def running_s3(folder: Path, address: str = "127.0.0.1") -> Iterator[S3Server]:
    """A server over an empty folder, on an address of this machine's."""
    with killable_s3(folder, address) as killable:
        yield killable.server


@contextmanager
def killable_s3(folder: Path, address: str = "127.0.0.1") -> Iterator["KillableS3"]:
    """The same, that can be killed and started again."""
    binary = find_versitygw()
    if binary is None:
        pytest.skip("versitygw is not installed: `scripts/test-servers` installs it")
    (folder / BUCKET).mkdir()
    killable = KillableS3(binary, S3Server(f"http://{address}:{free_port(address)}", folder))
    try:
        killable.start()
        yield killable
    finally:
        killable.kill()


class KillableS3:
    """A server that can be killed and started again, over the same folder.

    Attributes:
        server: How it is found.
    """

    def __init__(self, binary: str, server: S3Server) -> None:
        self.server = server
        self._binary = binary
        self._log = server.folder.with_suffix(".log")
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = str(self.server.folder)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._binary, "--port", self.server.url.removeprefix("http://"), "posix", folder],
                env={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY, "HOME": folder},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until_it_answers(self.server.url, self._process, self._log)

    def kill(self) -> None:
        """Kill it, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def wait_until_it_answers(url: str, process: subprocess.Popen, log: Path) -> None:
    """Return when the server answers, whatever that is."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with suppress(OSError):
            try:
                urlopen(url, timeout=1).close()
            except HTTPError as refused:  # an answer: it wants a signature
                refused.close()
            return
        time.sleep(0.02)
    pytest.fail(f"versitygw does not answer at {url}. It said:\n{log.read_text()}")


@contextmanager
def lossy_proxy(url: str) -> Iterator["LossyProxy"]:
    """A proxy in front of a server that can lose requests or answers."""
    proxy = LossyProxy(int(url.rpartition(":")[2]))
    try:
        yield proxy
    finally:
        proxy.close()


class LossyProxy:
    """Passes each connection on. `faults` are used up by the coming puts, one each.

    A fault "request" closes the connection before the server hears of the put, "answer" after the
    server has answered.

    Attributes:
        renamed: Bytes of answers, and as many that come instead: keys that this server can't have.
        denied: Objects that may be listed, and not read.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.faults: list[str] = []
        self.renamed: dict[bytes, bytes] = {}
        self.denied: set[bytes] = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.target_port))
        with client, server, suppress(OSError):
            while request := client.recv(1 << 20):
                fault = self.faults.pop(0) if self.faults and request[:4] == b"PUT " else None
                if fault == "request":
                    return
                if any(b"/" + key + b" HTTP" in request for key in self.denied):
                    client.sendall(_DENIED)
                    continue
                server.sendall(request)
                answer = server.recv(1 << 20)
                if fault == "answer" or not answer:
                    return
                for key, instead in self.renamed.items():
                    answer = answer.replace(key, instead)
                client.sendall(answer)
