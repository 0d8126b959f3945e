"""What placement decides without Spark. The rest is in tests/engine."""

import re
import socket

import pytest

from fulmen.engine.placement import LocalCluster, Workers, local_host
from fulmen.errors import FulmenError


def test_each_worker_of_this_machine_has_a_host_name_of_its_own():
    hosts = [local_host(index) for index in range(300)]
    assert hosts[:2] == ["127.0.0.2", "127.0.0.3"]
    assert hosts[253:256] == ["127.0.0.255", "127.0.1.0", "127.0.1.1"]
    assert len(set(hosts)) == 300


def test_a_machine_without_such_addresses_is_told(monkeypatch):
    class Refusing(socket.socket):
        def bind(self, address):
            if address[0] == "127.0.0.3":
                raise OSError(49, "Can't assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Refusing)
    LocalCluster.check_hosts(1)
    said = (
        "workers: 2 on this machine need the addresses 127.0.0.2 to 127.0.0.3, and 127.0.0.3 can't "
        "be used (Can't assign requested address). Use one worker."
    )
    with pytest.raises(FulmenError, match=f"^{re.escape(said)}$"):
        LocalCluster.check_hosts(2)


class FakeSpark:
    """What Workers asks Spark for: who is there, as a text, and whether tasks would go there."""

    def __init__(self, master):
        self.master = master
        self.found = []
        self._jsc = self._jvm = self.sc = self.taskScheduler = self.getExecutorMemoryStatus = (
            self.keys
        ) = self

    def __call__(self):
        return self

    def mkString(self, separator):
        return separator.join(["10.0.0.9:7078", *(f"{host}:4{host[-1]}000" for host in self.found)])

    def hasExecutorsAliveOnHost(self, host):
        return host in self.found


@pytest.fixture
def spark():
    return FakeSpark("k8s://https://somewhere")


def test_workers_get_their_numbers_as_they_come(spark):
    workers = Workers(spark, 2, None)
    assert workers.alive() == ()
    spark.found = ["10.0.0.5"]
    assert workers.alive() == (0,)
    spark.found = ["10.0.0.4", "10.0.0.5"]
    assert workers.alive() == (0, 1)
    assert workers.hosts == ["10.0.0.5", "10.0.0.4"]


def test_a_worker_on_another_host_gets_the_number_of_the_lost_one(spark):
    workers = Workers(spark, 2, None)
    spark.found = ["10.0.0.4", "10.0.0.5"]
    workers.alive()
    spark.found = ["10.0.0.5"]
    assert workers.alive() == (1,)
    spark.found = ["10.0.0.5", "10.0.0.6"]
    assert workers.alive() == (0, 1)
    assert workers.hosts == ["10.0.0.6", "10.0.0.5"]


def test_a_worker_in_the_drivers_jvm_is_always_there():
    workers = Workers(FakeSpark("local[1]"), 1, None)
    assert workers.alive() == (0,)
    assert workers.hosts == [None]


def test_workers_that_do_not_come_are_told(spark, tmp_path):
    spark.found = ["10.0.0.4"]
    said = f"1 of 2 workers started within 0 seconds. The reason may be in '{tmp_path}'."
    with pytest.raises(FulmenError, match=f"^{re.escape(said)} On a busy machine"):
        Workers(spark, 2, None).wait_for(2, 0, tmp_path, tell=print)
