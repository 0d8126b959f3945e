"""Webhooks and calls through the Service that the operator makes, whatever becomes of the pods.

Two clients never pause and send nothing twice: what one gets that is no answer is an error. One
looks for the row of each request as soon as it has its 200.
"""

import http.client
import json
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from support.cluster import kills
from support.cluster.kube import eventually, is_ready
from support.cluster.numbered import FULMEN, START_SECONDS

NAME = "served"
FILE = Path(__file__).parent / "topologies" / "served.yaml"
SECRET = "table"
GOES_ON_SECONDS = 240
ANSWER_SECONDS = 170

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.matrix(share=1 / 2, name="clients and connectors under kills", cell="served"),
]


class Client:
    """Sends one request after the other, each on a new connection if the last answer said so.

    Attributes:
        answered: How many answers were right.
        wrong: What was not, with the number of its request.
    """

    def __init__(self, address, port, ask):
        self.answered, self.wrong = 0, []
        self._connection = http.client.HTTPConnection(address, port, timeout=ANSWER_SECONDS)
        self._ask, self._stop = ask, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set() and not self.wrong:
            number = self.answered
            try:
                wrong = self._ask(number, self._send)
            except (OSError, http.client.HTTPException) as error:
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                self.wrong.append((number, wrong))
            self.answered += 1
        self._connection.close()

    def _send(self, path, body):
        self._connection.request("POST", path, json.dumps(body))
        with self._connection.getresponse() as response:
            return response.status, response.read()

    def goes_on(self):
        """Wait for answers to requests that were not sent yet."""
        first = self.answered + 2
        eventually(
            lambda: self.wrong or self.answered > first + 5, bool, GOES_ON_SECONDS, "an answer"
        )
        assert self.wrong == []

    def stop(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def topology(operator, kube, postgres):
    postgres.run("CREATE TABLE orders (id bigint)")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    resource = yaml.safe_load(FILE.read_text())
    value = {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": "DSN"}}}
    resource["spec"]["env"] = [{"name": "DSN", **value}]
    kube.apply({**secret, "stringData": {"DSN": postgres.dsn}}, resource)
    kube.wait("topology", NAME, is_ready, START_SECONDS, "Ready")
    return resource


@pytest.fixture
def clients(topology, kube, postgres):
    address = kube.get("service", NAME)["spec"]["clusterIP"]

    def order(number, send):
        status, said = send("/", {"id": number})
        if status != 200:
            return f"{status} {said}"
        found = postgres.run(f"SELECT id FROM orders WHERE id = {number}")
        return None if found else "200, and there is no row"

    def double(number, send):
        status, said = send("/double", {"number": number})
        return None if (status, said) == (200, str(2 * number).encode()) else f"{status} {said}"

    made = [Client(address, 8080, order), Client(address, 8081, double)]
    yield made
    for client in made:
        client.stop()


def drivers(kube):
    labels = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=driver"
    return {pod["metadata"]["name"] for pod in kube.list("pods", labels)}


def has_two_workers(topology):
    is_taken_over = (
        topology["status"].get("observedGeneration") == topology["metadata"]["generation"]
    )
    return is_taken_over and is_ready(topology) and topology["status"]["workers"]["ready"] == 2


def test_a_call_from_the_command_line_finds_the_driver(topology, kube):
    command = [FULMEN, "call", NAME, "double", "--namespace", kube.namespace]
    done = subprocess.run([*command, '{"number": 21}'], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_no_client_sees_an_error_when_pods_are_lost_added_or_replaced(clients, topology, kube):
    for client in clients:
        client.goes_on()
    worker = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=worker"
    assert kills.delete_pod(kube, kube.list("pods", worker)[0]["metadata"]["name"])
    for client in clients:
        client.goes_on()
    topology["spec"]["workers"] = 2
    kube.apply(topology)
    kube.wait("topology", NAME, has_two_workers, GOES_ON_SECONDS, "two workers")
    for client in clients:
        client.goes_on()
    topology["spec"]["restartNonce"] = 1
    kube.apply(topology)
    eventually(
        lambda: drivers(kube), {f"{NAME}-driver-2"}.__eq__, GOES_ON_SECONDS, "the next driver alone"
    )
    for client in clients:
        client.goes_on()
    [policy] = kube.list("networkpolicies", f"fulmen.dev/topology={NAME}")
    own = {"podSelector": {"matchLabels": {"fulmen.dev/topology": NAME}}}
    assert policy["spec"]["ingress"][-1]["from"] == [own, {"podSelector": {}}]
