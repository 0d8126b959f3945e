"""A real PostgreSQL for tests, on a free port, in a folder that is removed afterwards.

It can be killed and started again. Where the binaries are absent, tests that use it are skipped and
say so (in CI that is a failure). Root can't run it, so it runs as the user `postgres` then.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from support.runs.spark_runs import is_alive, wait_until
from support.servers.ports import free_port

USER, PASSWORD = "fulmen", "s3cret/word"
DEBIAN = Path("/usr/lib/postgresql")


def binary(name):
    """The path of `postgres` or `initdb`: of the newest version, if Debian has several."""
    versions = sorted(DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name))
    path = shutil.which(name, path=os.pathsep.join([*map(str, reversed(versions)), os.defpath]))
    path = path or shutil.which(name)
    if path is None:
        pytest.skip(
            f"PostgreSQL was not tried: there is no {name} (Debian: apt-get install"
            " --no-install-recommends postgresql)"
        )
    return path


def by_a_user():
    """What makes Popen start it as somebody who is not root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if is_root() else {}


def is_root():
    """Whether this process may do everything."""
    return os.geteuid() == 0


class Postgres:
    """One that can be killed and started again. Its data stay.

    Args:
        folder: Where it keeps all that it has.
        address: Of this machine, where it listens.
        primary: It is a hot standby of this one. None: it is new.

    Attributes:
        address: Where it listens.
        port: The same.
    """

    def __init__(self, folder, address="127.0.0.1", primary=None):
        self.address, self.port = address, free_port(address)
        self._folder, self._process = folder, None
        if primary is not None:
            how = ["-D", folder / "data", "-R", "-c", "fast", "-N", "-d", primary.dsn]
            self._made_by(["pg_basebackup", *how])
            return
        password = folder / "password"
        password.write_text(PASSWORD)
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        self._made_by(["initdb", "-D", folder / "data", "-U", USER, "--pwfile", password, *options])
        with open(folder / "data" / "pg_hba.conf", "a") as rules:
            rules.write("host all all all scram-sha-256\n")

    def _made_by(self, command):
        command[0] = binary(command[0])
        made = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, check=False, **by_a_user()
        )
        assert made.returncode == 0, made.stdout + made.stderr

    @property
    def dsn(self):
        """How its owner connects."""
        return self.dsn_of(USER)

    def dsn_of(self, user, password=PASSWORD, **more):
        """How somebody connects."""
        return psycopg.conninfo.make_conninfo(
            host=self.address,
            port=self.port,
            dbname="postgres",
            user=user,
            password=password,
            **more,
        )

    def run(self, *statements):
        """The rows of the last of these."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            for statement in statements:
                found = db.execute(statement)
            return found.fetchall() if found.description else []

    def start(self):
        """Start it, and wait until it answers."""
        settings = ("-c", f"listen_addresses={self.address}")
        settings += ("-c", f"unix_socket_directories={self._folder}", "-c", "max_connections=50")
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [binary("postgres"), "-D", self._folder / "data", "-p", str(self.port), *settings],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                **by_a_user(),
            )
        wait_until(self._answers, "PostgreSQL's start")

    def _answers(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            self.run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def kill(self):
        """End it as `kill -9` does, with all its connections."""
        of_it = ["pgrep", "-P", str(self._process.pid)]
        children = subprocess.run(of_it, capture_output=True, text=True, check=False).stdout
        self._process.kill()
        self._process.wait()
        for pid in map(int, children.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, map(int, children.split()))), "the end of all")

    def end(self):
        """Kill it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def running_postgres(address="127.0.0.1", primary=None):
    """One with an empty database, on an address of this machine's; or a standby of another one."""
    binary("postgres")
    with tempfile.TemporaryDirectory(prefix="fulmen-postgres-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if is_root():
            shutil.chown(folder, "postgres")
        server = Postgres(folder, address, primary)
        try:
            server.start()
            yield server
        finally:
            server.end()
