"""A real RabbitMQ for tests, on free ports of loopback, in a folder that is removed afterwards.

It can be killed and started again. Erlang's name server, epmd, runs as a process of its own: the
machine's other nodes, and other interfaces, are not involved. Where the binaries are absent, tests
that use it are skipped and say so (in CI that is a failure).
"""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import pika
import pytest
from pika.exceptions import AMQPError

from support.lives.processes import descendants
from support.runs.spark_runs import wait_until
from support.servers.ports import free_port, is_open

USER, PASSWORD = "fulmen", "s3cret/word"
BINARY = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 120
ADDITIONAL = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
)
"""One scheduler, which does not spin while it waits: a start takes a sixth less CPU time."""


class RabbitServer:
    """One that can be killed and started again. Durable queues and persistent messages stay.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, folder):
        self.port, self._dist_port, self._epmd_port = (free_port() for _ in range(3))
        self._folder, self._process = folder, None
        (folder / "env.conf").touch()
        (folder / "plugins").write_text("[].")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"default_user = {USER}\ndefault_pass = {PASSWORD}\n"
            "loopback_users = none\nlog.console = true\nlog.file = false\n"
        )
        self._epmd = subprocess.Popen(
            ["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self):
        """How everybody connects."""
        return self.url_of(USER, PASSWORD)

    def url_of(self, user, password, port=None):
        """How somebody connects, perhaps through a proxy."""
        return f"amqp://{user}:{password.replace('/', '%2F')}@127.0.0.1:{port or self.port}/%2F"

    def url_through(self, proxy):
        """How everybody connects through a proxy."""
        return self.url_of(USER, PASSWORD, proxy.port)

    @contextmanager
    def channel(self):
        """For a test's own calls."""
        with pika.BlockingConnection(pika.URLParameters(self.url)) as connection:
            yield connection.channel()

    def start(self):
        """Start it, and wait until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [BINARY],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a shell, the node, and what that starts end together
            )
        wait_until(self._answers, "RabbitMQ's start", START_SECONDS)

    def _environment(self):
        folder = str(self._folder)
        return {
            **os.environ,
            "HOME": folder,  # where Erlang's cookie is
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_NODENAME": f"fulmen-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ADDITIONAL,
        }

    def settle(self):
        """What was declared survives a kill from now on: by itself it is on disk a moment later."""
        self.evaluate("mnesia:sync_log().")

    def add_user(self, name, exchange, routing_keys):
        """A user with all rights, but to an exchange those to some routing keys only: a pattern."""
        user, place = f'<<"{name}">>', f'<<"{exchange}">>, <<"{routing_keys}">>'
        for call in (
            f'add_user({user}, <<"{PASSWORD}">>',
            f'set_permissions({user}, <<"/">>, <<".*">>, <<".*">>, <<".*">>',
            f'set_topic_permissions({user}, <<"/">>, {place}, <<".*">>',
        ):
            self.evaluate(f'rabbit_auth_backend_internal:{call}, <<"test">>).')

    def evaluate(self, expression):
        """Have the node evaluate an expression of Erlang's, as `rabbitmqctl eval` does.

        That starts a virtual machine for each call; `erl_call` is a small program.
        """
        told = subprocess.run(
            ["erl_call", "-address", f"127.0.0.1:{self._dist_port}", "-e"],
            input=f"{expression}\n",
            env=self._environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        assert told.stdout.startswith("{ok, "), told.stdout + told.stderr
        return told.stdout.removeprefix("{ok, ").removesuffix("}")

    def _answers(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()[-5000:]
        if not is_open(self.port):
            return False
        try:
            with self.channel():
                return True
        except (AMQPError, OSError):
            return False

    @property
    def runs(self):
        """Whether its process is alive."""
        return self._process.poll() is None

    def kill(self):
        """End it as `kill -9` does."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @contextmanager
    def stopped(self):
        """While this lasts, it says nothing, but its connections stay."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            wait_until(self._has_stopped, "the stop")  # until then threads go on, on a busy machine
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def _has_stopped(self):
        states = [
            (thread / "stat").read_text().rpartition(")")[2].split()[0]
            for process in (self._process.pid, *descendants(self._process.pid))
            if os.getpgid(process) == self._process.pid
            for thread in Path(f"/proc/{process}/task").iterdir()
        ]
        return set(states) == {"T"}

    def end(self):
        """Kill all that runs of it."""
        if self._process is not None and self.runs:
            self.kill()
        self._epmd.kill()
        self._epmd.wait()


def look_for_binary():
    """Skip the test where there is no RabbitMQ."""
    if not BINARY.exists() or shutil.which("epmd") is None:
        pytest.skip(
            "RabbitMQ was not tried: there is no rabbitmq-server (Debian: apt-get install"
            " --no-install-recommends rabbitmq-server)"
        )


@contextmanager
def running_rabbitmq():
    """One without queues."""
    look_for_binary()
    with tempfile.TemporaryDirectory(prefix="fulmen-rabbitmq-") as name:
        server = RabbitServer(Path(name))
        try:
            server.start()
            yield server
        finally:
            server.end()
