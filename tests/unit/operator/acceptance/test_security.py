"""What a podTemplate may ask for, by pod security standard: each rule, and how it is told."""

import copy
import json

import pytest
from pydantic import ValidationError

from fulmen.topology.resource.spec.pods import Pod
from fulmen_operator.acceptance.pod_security import forbidden
from fulmen_operator.manifests.pod_template import with_template
from fulmen_operator.settings import Settings
from support.operator.fake_cluster import FakeCluster
from support.operator.operated import CODE, summary


def container(**fields):
    return {"containers": [{"name": "driver", **fields}]}


def secured(**fields):
    return container(securityContext=fields)


def sidecar(**fields):
    return {"containers": [{"name": "log", "image": "busybox", **fields}]}


BASELINE = [
    ({"hostNetwork": True}, "hostNetwork"),
    ({"hostPID": True}, "hostPID"),
    ({"hostIPC": True}, "hostIPC"),
    ({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}, "volumes[root].hostPath"),
    ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "kernel.msgmax"),
    ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile"),
    ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "appArmorProfile"),
    ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "seLinuxOptions"),
    ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, "hostProcess"),
    (secured(privileged=True), "containers[driver].securityContext.privileged"),
    (secured(capabilities={"add": ["SYS_ADMIN"]}), "SYS_ADMIN"),
    (secured(procMount="Unmasked"), "procMount"),
    (container(ports=[{"containerPort": 1, "hostPort": 80}]), "hostPort 80"),
    (container(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 1}}), "probe"),
    (container(lifecycle={"preStop": {"tcpSocket": {"host": "10.0.0.1", "port": 1}}}), "hook"),
    (sidecar(securityContext={"privileged": True}), "containers[log].securityContext.privileged"),
    (
        {"initContainers": [{"name": "first", "securityContext": {"privileged": True}}]},
        "initContainers[first].securityContext.privileged",
    ),
]
RESTRICTED = [
    (
        {"volumes": [{"name": "share", "nfs": {"server": "a", "path": "/"}}]},
        "volumes[share] is of the kind nfs",
    ),
    ({"securityContext": {"runAsUser": 0}}, "runAsUser"),
    ({"securityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
    (secured(allowPrivilegeEscalation=True), "allowPrivilegeEscalation"),
    (secured(runAsUser=0), "runAsUser"),
    (secured(runAsNonRoot=False), "runAsNonRoot"),
    (secured(capabilities={"drop": ["NET_RAW"]}), "capabilities.drop"),
    (secured(capabilities={"add": ["CHOWN"]}), "CHOWN"),
    ({"securityContext": {"seccompProfile": None}}, "seccompProfile"),
    (sidecar(securityContext={"allowPrivilegeEscalation": True}), "containers[log]"),
]
ALLOWED = [
    {},
    {"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}]},
    sidecar(),
    sidecar(securityContext={"runAsUser": 1000}),
    sidecar(securityContext={"capabilities": {"add": ["NET_BIND_SERVICE"]}}),
    {"initContainers": [{"name": "first", "image": "busybox"}]},
    {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "m"}}]},
    {"volumes": [{"name": "m", "ephemeral": {}}, {"name": "c", "csi": {"driver": "x"}}]},
    {"securityContext": {"runAsUser": 1000, "fsGroup": 5, "supplementalGroups": [4]}},
    container(livenessProbe={"httpGet": {"port": 1}}),
]


def told(spec, level):
    pod = Pod.model_validate({"podTemplate": {"spec": spec}})
    return forbidden(with_template(pod, "driver"), level)


@pytest.mark.parametrize(("spec", "words"), BASELINE, ids=json.dumps)
def test_what_baseline_forbids(spec, words):
    assert any(words in text for text in told(spec, "baseline"))
    assert any(words in text for text in told(spec, "restricted"))
    assert told(spec, "privileged") == []


@pytest.mark.parametrize(("spec", "words"), RESTRICTED, ids=json.dumps)
def test_what_only_restricted_forbids(spec, words):
    assert any(words in text for text in told(spec, "restricted"))
    assert told(spec, "baseline") == []


@pytest.mark.parametrize("spec", ALLOWED, ids=json.dumps)
def test_what_restricted_allows(spec):
    assert told(spec, "restricted") == []


def test_annotations_that_take_apparmor_away():
    name = "container.apparmor.security.beta.kubernetes.io/driver"
    pod = {"metadata": {"annotations": {name: "unconfined"}}, "spec": {}}
    assert name in forbidden(pod, "baseline")[0]
    pod["metadata"]["annotations"][name] = "runtime/default"
    assert forbidden(pod, "baseline") == []


def test_all_that_fulmen_makes_is_allowed(cluster):
    pods = [*cluster.pods("driver"), *cluster.pods("worker")]
    assert pods
    assert [forbidden(pod, "restricted") for pod in pods] == [[]] * len(pods)


# ---- what becomes of the topology


def of(role, spec):
    return {**CODE, f"spec.{role}.podTemplate": {"spec": spec}}


def test_it_is_refused_with_all_that_is_wrong_and_the_cure():
    changes = of("driver", {"hostPID": True}) | of("worker", secured_worker())
    cluster = FakeCluster(changes)
    cluster.settle()
    assert cluster.names("Pod") == []
    accepted = cluster.condition("SpecAccepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    for words in (
        "spec.driver.podTemplate.spec: hostPID",
        "spec.worker.podTemplate.spec: containers[worker].securityContext.privileged",
        "the chart's podTemplate.allow",
    ):
        assert words in accepted["message"]


def secured_worker():
    return {"containers": [{"name": "worker", "securityContext": {"privileged": True}}]}


def test_a_change_that_asks_for_it_leaves_alone_what_runs(cluster):
    cluster.change(of("driver", {"hostPID": True}))
    cluster.settle()
    assert summary(cluster) == ("Active", "True", "Active")
    assert cluster.condition("SpecAccepted")["reason"] == "InvalidSpec"
    assert "hostPID" not in json.dumps([cluster.pods("driver"), cluster.revision.to_json()])


def test_whoever_installs_the_operator_may_allow_it():
    cluster = FakeCluster(of("driver", {"hostPID": True}))
    cluster.settings = Settings(pod_template_allow="privileged")
    cluster.settle()
    (pod,) = cluster.pods("driver")
    assert pod["spec"]["hostPID"] is True


def test_a_level_that_does_not_exist_ends_the_operator():
    with pytest.raises(ValueError, match="restriced"):
        Settings.from_environment({"FULMEN_POD_TEMPLATE_ALLOW": "restriced"})


PROBE = {"httpGet": {"host": "", "port": 1}, "tcpSocket": {"host": "", "port": 1}}
CONTEXT = {
    "runAsUser": 1000,
    "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]},
    "seLinuxOptions": {"type": "container_t", "user": "", "role": ""},
    "seccompProfile": {"type": "RuntimeDefault"},
    "appArmorProfile": {"type": "RuntimeDefault"},
    "windowsOptions": {"hostProcess": False},
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        **{
            kind: [
                {
                    "name": name,
                    "env": [{"name": "A", "value": "b"}],
                    "ports": [{"name": "http", "containerPort": 1, "hostPort": 1}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "securityContext": CONTEXT | {"privileged": False, "procMount": "Default"},
                    "livenessProbe": PROBE,
                    "readinessProbe": PROBE,
                    "startupProbe": PROBE,
                    "lifecycle": {"postStart": PROBE, "preStop": PROBE, "stopSignal": "SIGTERM"},
                }
                for name in names
            ]
            for kind, names in {
                "containers": ("driver", "log"),
                "initContainers": ("first",),
                "ephemeralContainers": ("late",),
            }.items()
        },
        "volumes": [{"name": "data", "hostPath": {"path": "/"}}],
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "a"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}},
        "securityContext": CONTEXT | {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    },
}


def places(value, path=()):
    """Where something is in a document, from its root to its leaves."""
    yield path
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(part, (*path, key))


@pytest.mark.parametrize("junk", [None, 1, "x", True, [], {}, [None], [[]], ["x"], [{}], {"x": 1}])
def test_a_template_of_any_shape_is_refused_or_judged(junk):
    refused = 0
    for *way, last in filter(None, places(TEMPLATE)):
        template = copy.deepcopy(TEMPLATE)
        parent = template
        for key in way:
            parent = parent[key]
        parent[last] = junk
        try:
            pod = Pod.model_validate({"podTemplate": template})
        except ValidationError:
            refused += 1
        else:
            assert isinstance(forbidden(with_template(pod, "driver"), "restricted"), list)
    assert refused > 0 or junk in (None, {})
