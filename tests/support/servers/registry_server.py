"""A real schema registry with Confluent's API for tests: Apicurio Registry, on a free port.

It can be killed and started again, with its schemas. `scripts/test-servers` installs it; where it
is absent, tests that use it are skipped and say so (in CI that is a failure).
"""

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from fulmen.engine.jvm.java import find_java
from support.runs.spark_runs import wait_until
from support.servers.kafka_server import folder_of_servers
from support.servers.ports import free_port, is_open

VERSION = "2.6.13.Final"


class RegistryServer:
    """One that can be killed and started again. Its schemas stay.

    Args:
        folder: Where it keeps them.
        address: Of this machine, where it listens.

    Attributes:
        port: Where it listens.
        url: Of Confluent's API.
    """

    def __init__(self, folder, address="127.0.0.1"):
        self._folder, self._process, self._address = folder, None, address
        self.port = free_port(address)
        self.url = self.url_at(self.port)

    def url_at(self, port):
        """That of the API, if something else passes on what it gets at a port."""
        return f"http://{self._address}:{port}/apis/ccompat/v7"

    def start(self):
        """Start it, and wait until it answers."""
        java = find_java().path / "bin" / "java"
        [runner] = installed().glob("*-runner.jar")
        settings = [
            f"-Dquarkus.http.host={self._address}",
            f"-Dquarkus.http.port={self.port}",
        ]
        memory = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        database = f"jdbc:h2:file:{self._folder}/schemas;WRITE_DELAY=0"  # outlives `kill -9`
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [java, *memory, *settings, "-jar", runner],
                cwd=self._folder,
                env={**os.environ, "REGISTRY_DATASOURCE_URL": database},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._answers, "the registry's start")

    def _answers(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()
        if not is_open(self.port, self._address):
            return False
        try:
            with self.client() as client:
                return client.get_schema_types()
        except (httpx2.HTTPError, SchemaRegistryError):  # not yet
            return False

    def kill(self):
        """End it as `kill -9` does."""
        self._process.kill()
        self._process.wait()

    def end(self):
        """Kill it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @contextmanager
    def down(self):
        """While this lasts, it is killed."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    # ---- what tests do with it

    def client(self):
        """Confluent's own."""
        return SchemaRegistryClient({"url": self.url})

    def register(self, subject, schema, kind="AVRO", references=()):
        """Have a schema in a subject. Gives its id."""
        with self.client() as client:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            return client.register_schema(subject, Schema(text, kind, list(references)))

    def compatible(self, subject):
        """From now on, new schemas of a subject must be able to read what older ones wrote."""
        with self.client() as client:
            client.set_compatibility(subject, "BACKWARD")


def installed():
    """The folder of the server."""
    return folder_of_servers() / f"registry-{VERSION}"


@contextmanager
def running_registry(address="127.0.0.1"):
    """One without schemas, on an address of this machine's."""
    if not installed().is_dir():
        pytest.skip("no schema registry was tried: `scripts/test-servers` installs it")
    folder = Path(tempfile.mkdtemp(prefix="fulmen-registry-"))
    try:
        server = RegistryServer(folder, address)
        try:
            server.start()
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder)
