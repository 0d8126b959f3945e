"""Spark's settings for workers that are pods."""

from dataclasses import replace

import pytest

from fulmen.kube.driver.pod_settings import Surroundings, pod_settings, single_pod_settings
from fulmen.topology.validation.reserved_settings import of_pods

WHERE = Surroundings("blue", "shop", "u-1", 4, "shop-driver-4", "10.0.0.7")


def pod(name, **container):
    return {"spec": {"containers": [{"name": "sidecar"}, {"name": name, **container}]}}


def settings(worker=None, driver=None, where=WHERE):
    return pod_settings(
        where,
        "https://10.0.0.1:443",
        "shop:1",
        pod("worker", **(worker or {})),
        pod("driver", **(driver or {})),
    )


def test_who_and_where():
    found = settings()
    assert found["spark.master"] == "k8s://https://10.0.0.1:443"
    assert found["spark.app.id"] == "shop-4"
    assert found["spark.kubernetes.executor.podNamePrefix"] == "shop-4"
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "10.0.0.7"


def test_spark_wants_ipv6_addresses_in_brackets():
    found = settings(where=replace(WHERE, pod_ip="fd00::7"))
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "[fd00::7]"


def test_memory_is_the_limit_divided():
    found = settings(
        worker={"resources": {"limits": {"memory": "2Gi"}}},
        driver={"resources": {"limits": {"memory": "1Gi"}}},
    )
    assert found["spark.executor.memory"] == "819m"
    assert found["spark.executor.memoryOverhead"] == f"{2048 - 819}m"
    assert found["spark.driver.memory"] == "409m"


def test_workers_in_the_drivers_pod_need_no_cluster():
    driver = pod("driver", resources={"limits": {"memory": "1Gi"}})
    assert single_pod_settings(WHERE, driver) == {
        "spark.app.name": "shop",
        "spark.driver.memory": "409m",
        "spark.testing.reservedMemory": "104857600",
    }


@pytest.mark.parametrize(
    ("resources", "requested", "limit"),
    [
        pytest.param({}, "1", None, id="nothing"),
        pytest.param({"requests": {"cpu": "250m"}}, "250m", None, id="request"),
        pytest.param({"limits": {"cpu": "2"}}, "2", "2", id="limit"),
        pytest.param({"requests": {"cpu": "250m"}, "limits": {"cpu": "2"}}, "250m", "2", id="both"),
    ],
)
def test_cpu(resources, requested, limit):
    found = settings(worker={"resources": resources})
    assert found["spark.kubernetes.executor.request.cores"] == requested
    assert found.get("spark.kubernetes.executor.limit.cores") == limit


def test_the_secret_is_in_a_file_only():
    found = settings()
    assert found["spark.authenticate.secret.file"] == "/etc/fulmen/auth/secret"
    assert "spark.authenticate.secret" not in found


@pytest.mark.parametrize(
    ("name", "is_reserved"),
    [
        ("spark.master", True),
        ("spark.kubernetes.namespace", True),
        ("spark.authenticate.secret", True),
        ("spark.executor.memory", True),
        ("spark.executor.memoryFraction", False),
        ("spark.executor.memoryOverhead", True),
        ("spark.network.crypto.enabled", True),
        ("spark.task.cpus", False),
        ("spark.hadoop.fs.s3a.endpoint", False),
    ],
)
def test_what_users_can_not_set(name, is_reserved):
    assert [found for found, _ in of_pods({name: "x"})] == [name] * is_reserved


def test_the_environment_of_a_drivers_pod():
    environ = {
        "FULMEN_NAMESPACE": "blue",
        "FULMEN_TOPOLOGY": "shop",
        "FULMEN_UID": "u-1",
        "FULMEN_ATTEMPT": "4",
        "FULMEN_POD_NAME": "shop-driver-4",
        "FULMEN_POD_IP": "10.0.0.7",
    }
    assert Surroundings.of(environ) == WHERE
