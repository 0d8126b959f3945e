"""The chart: valid, with no more rights than are used, in one namespace or in all."""

import json
import shutil
from dataclasses import replace

import pytest
import yaml

from fulmen.topology.validation.check import check
from fulmen_operator.acceptance.pod_security import (
    BASELINE_CAPABILITIES,
    SELINUX_TYPES,
    SYSCTLS,
    VOLUMES,
)
from fulmen_operator.check_installation import TIMEOUT_ENV, TOPOLOGY_ENV
from fulmen_operator.settings import NetworkPolicies, Settings
from support.docs.pages import ROOT
from support.metrics.dashboards import ALERTS, dashboard
from support.operator.charts import CHART, HELM, helm, template

pytestmark = pytest.mark.skipif(HELM is None, reason="needs helm")


POLICY = [
    ("ValidatingAdmissionPolicy", "", "tools-fulmen-operator-drivers"),
    ("ValidatingAdmissionPolicyBinding", "", "tools-fulmen-operator-drivers"),
]


@pytest.fixture(scope="module")
def everywhere():
    return template()


def operator_of(objects):
    return objects["Deployment", "tools", "fulmen-operator"]["spec"]


def test_lint():
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_what_is_installed_for_all_namespaces(everywhere):
    assert sorted(everywhere) == [
        ("ClusterRole", "", "tools-fulmen-operator"),
        ("ClusterRole", "", "tools-fulmen-topologies-edit"),
        ("ClusterRole", "", "tools-fulmen-topologies-view"),
        ("ClusterRoleBinding", "", "tools-fulmen-operator"),
        ("CustomResourceDefinition", "", "topologies.fulmen.dev"),
        ("Deployment", "tools", "fulmen-operator"),
        ("Role", "tools", "fulmen-operator-leader"),
        ("RoleBinding", "tools", "fulmen-operator-leader"),
        ("ServiceAccount", "tools", "fulmen-operator"),
        *POLICY,
    ]


def admission(*values):
    """What the policy about drivers' pods says."""
    return template(*values).get(POLICY[0])


def test_drivers_make_pods_that_keep_to_what_templates_may_ask_for():
    said = {
        level: str(admission(f"podTemplate.allow={level}")["spec"]["validations"])
        for level in ("restricted", "baseline", "privileged")
    }
    names = {level: [n in text for n in (*SYSCTLS, "hostPID")] for level, text in said.items()}
    assert (set(names["restricted"]), set(names["privileged"])) == ({True}, {False})
    assert names["baseline"] == names["restricted"]
    capabilities = {
        level: [f"'{c}'" in said[level] for c in BASELINE_CAPABILITIES] for level in said
    }
    assert (sum(capabilities["restricted"]), all(capabilities["baseline"])) == (1, True)
    kinds = sorted(VOLUMES)
    assert all(f"has(v.{kind})" in said["restricted"] for kind in kinds)
    assert not any(f"has(v.{kind})" in said["baseline"] for kind in kinds)
    assert all(f"'{kind}'" in said["baseline"] for kind in SELINUX_TYPES if kind)


def test_the_policy_is_where_the_operator_looks_or_not_at_all():
    constraints = admission("namespaces={blue,green}")["spec"]["matchConstraints"]
    (where,) = constraints["namespaceSelector"]["matchExpressions"]
    assert where["values"] == ["blue", "green"]
    assert "namespaceSelector" not in admission()["spec"]["matchConstraints"]
    assert admission("admissionPolicy.enabled=false") is None


def of_test(*values):
    """What `helm test` makes."""
    return template(*values, hooks=True)


def test_nothing_of_helm_test_is_installed_and_all_of_it_goes_again():
    objects = of_test()
    assert {kind for kind, *_ in objects} == {"Pod", "Role", "RoleBinding", "ServiceAccount"}
    for (_, namespace, name), thing in objects.items():
        assert (namespace, name) == ("tools", "fulmen-test")
        assert thing["metadata"]["annotations"]["helm.sh/hook"] == "test"
        policy = thing["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
    assert {namespace for _, namespace, _ in of_test("namespaces={blue,green}")} == {"blue"}
    assert {namespace for _, namespace, _ in of_test("test.namespace=red")} == {"red"}
    both = of_test("namespaces={blue,green}", "test.namespace=green")
    assert {namespace for _, namespace, _ in both} == {"green"}


def test_helm_test_is_not_where_the_operator_does_not_look():
    values = ("--set", "namespaces={blue,green}", "--set", "test.namespace=red")
    text = helm("template", "x", str(CHART), *values, fails=True)
    assert 'test.namespace is "red", but the operator only watches namespaces: blue, green' in text


def test_helm_test_runs_where_the_operator_may_run():
    objects = of_test("nodeSelector.arch=arm", "tolerations[0].key=k", "affinity.a=b")
    pod = objects["Pod", "tools", "fulmen-test"]["spec"]
    assert pod["nodeSelector"] == {"arch": "arm"}
    assert pod["tolerations"] == [{"key": "k"}]
    assert pod["affinity"] == {"a": "b"}


def test_helm_test_makes_a_valid_topology_with_few_rights():
    objects = of_test("test.spec.checkpoint.uri=s3://a/b")
    pod = objects["Pod", "tools", "fulmen-test"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert set(environment) == {TOPOLOGY_ENV, TIMEOUT_ENV}
    topology = json.loads(environment[TOPOLOGY_ENV])
    assert topology["metadata"]["labels"]["app.kubernetes.io/name"] == "fulmen-test"
    assert check(topology, for_kubernetes=True).problems == ()
    assert topology["spec"]["checkpoint"] == {"deletionPolicy": "Delete", "uri": "s3://a/b"}
    assert (topology["metadata"]["namespace"], topology["metadata"]["name"]) == (
        "tools",
        "fulmen-test",
    )
    assert objects["Role", "tools", "fulmen-test"]["rules"] == [
        {"apiGroups": ["fulmen.dev"], "resources": ["topologies"], "verbs": ["create"]},
        {
            "apiGroups": ["fulmen.dev"],
            "resources": ["topologies"],
            "resourceNames": ["fulmen-test"],
            "verbs": ["get", "delete"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]


def test_a_list_of_namespaces_needs_no_rights_elsewhere():
    objects = template("namespaces={blue,green}")
    assert sorted(objects) == [
        ("CustomResourceDefinition", "", "topologies.fulmen.dev"),
        ("Deployment", "tools", "fulmen-operator"),
        ("Role", "blue", "fulmen-operator"),
        ("Role", "blue", "fulmen-topologies-edit"),
        ("Role", "blue", "fulmen-topologies-view"),
        ("Role", "green", "fulmen-operator"),
        ("Role", "green", "fulmen-topologies-edit"),
        ("Role", "green", "fulmen-topologies-view"),
        ("Role", "tools", "fulmen-operator-leader"),
        ("RoleBinding", "blue", "fulmen-operator"),
        ("RoleBinding", "green", "fulmen-operator"),
        ("RoleBinding", "tools", "fulmen-operator-leader"),
        ("ServiceAccount", "tools", "fulmen-operator"),
        *POLICY,
    ]


def test_some_clusters_ask_for_more_rights():
    without, with_them = (
        template(f"rbac.finalizers={value}")["ClusterRole", "", "tools-fulmen-operator"]["rules"]
        for value in ("false", "true")
    )
    assert without == with_them[: len(without)]
    more = {r: rule["verbs"] for rule in with_them[len(without) :] for r in rule["resources"]}
    owned = ["persistentvolumeclaims", "serviceaccounts", "roles", "rolebindings"]
    assert more == {"topologies/finalizers": ["update"], **{kind: ["delete"] for kind in owned}}


def test_the_definition_stays_when_the_chart_goes(everywhere):
    crd = everywhere["CustomResourceDefinition", "", "topologies.fulmen.dev"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert crd == {**yaml.safe_load((ROOT / "crds/topologies.fulmen.dev.yaml").read_text()),
                   "metadata": crd["metadata"]}  # fmt: skip


def test_there_is_one_operator_that_restricted_namespaces_allow(everywhere):
    spec = operator_of(everywhere)
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "RollingUpdate"})
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"livenessProbe", "readinessProbe", "startupProbe"} <= container.keys()


def test_the_operator_may_get_and_write_its_own_lease_and_no_other(everywhere):
    (container,) = operator_of(everywhere)["template"]["spec"]["containers"]
    (lease,) = (v["value"] for v in container["env"] if v["name"] == "FULMEN_LEASE")
    assert lease == "tools/fulmen-operator"
    own, created, events = (
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs} | names
        for verbs, names in (
            (["get", "patch"], {"resourceNames": ["fulmen-operator"]}),
            (["create"], {}),
            (["create"], {"apiGroups": [""], "resources": ["events"]}),
        )
    )
    role = everywhere["Role", "tools", "fulmen-operator-leader"]
    assert role["rules"] == [created, own, events]
    binding = everywhere["RoleBinding", "tools", "fulmen-operator-leader"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == ["fulmen-operator"]


def test_several_operators_are_on_different_nodes_and_not_drained_at_once():
    objects = template("replicas=2", "affinity.nodeAffinity.a=b")
    spec = operator_of(objects)
    assert spec["replicas"] == 2
    affinity = spec["template"]["spec"]["affinity"]
    assert affinity["nodeAffinity"] == {"a": "b"}
    (term,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"] == spec["selector"]
    budget = objects["PodDisruptionBudget", "tools", "fulmen-operator"]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, spec["selector"])


def test_a_second_operator_restarts_the_first_one_not():
    one, two = (operator_of(template(f"replicas={replicas}")) for replicas in (1, 2))
    assert one["template"] == two["template"]


def test_who_says_where_operators_are_apart_is_heard():
    objects = template("replicas=3", "affinity.podAntiAffinity.mine=yes")
    affinity = operator_of(objects)["template"]["spec"]["affinity"]
    assert affinity == {"podAntiAffinity": {"mine": "yes"}}


def test_the_operator_reads_what_the_chart_sets():
    values = [
        "runtime.image=mine:2",
        "runtime.imagePullPolicy=Never",
        "namespaces={blue,green}",
        "podTemplate.allow=baseline",
        "checkpoint.size=3Gi",
        "checkpoint.accessMode=ReadWriteMany",
        "checkpoint.storageClassName=fast",
        "jsonLogs=true",
    ]
    (container,) = operator_of(template(*values))["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert Settings.from_environment(environment) == Settings(
        image="mine:2",
        image_pull_policy="Never",
        namespaces=("blue", "green"),
        pod_template_allow="baseline",
        claim_size="3Gi",
        claim_access_mode="ReadWriteMany",
        claim_storage_class="fast",
        json_logs=True,
        lease="tools/fulmen-operator",
    )


def test_the_chart_as_it_is_sets_the_operators_own_defaults(everywhere):
    (container,) = operator_of(everywhere)["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    settings = Settings.from_environment(environment)
    assert replace(settings, lease="") == Settings() == Settings.from_environment({})


def test_the_operator_may_give_drivers_their_rights(everywhere):
    """A Role can't be given rights that its giver lacks."""
    rules = everywhere["ClusterRole", "", "tools-fulmen-operator"]["rules"]
    allowed = {(r, v) for rule in rules for r in rule["resources"] for v in rule["verbs"]}
    verbs = ("get", "list", "watch", "create", "delete", "deletecollection", "patch")
    needed = {("pods", verb) for verb in verbs}
    needed |= {("configmaps", "get"), ("configmaps", "watch"), ("topologies", "get")}
    assert needed <= allowed
    assert not {("secrets", "get"), ("secrets", "list"), ("secrets", "watch")} & allowed
    assert not any(verb == "*" or resource == "*" for resource, verb in allowed)


def test_network_policies_on_demand(everywhere):
    assert not [kind for kind, *_ in everywhere if kind == "NetworkPolicy"]
    objects = template("networkPolicies.enabled=true", "networkPolicies.metricsFrom[0].a=b")
    spec = operator_of(objects)
    (container,) = spec["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    of_all = NetworkPolicies(metrics_from=({"a": "b"},), egress=({},))
    settings = Settings.from_environment(environment)
    assert settings == Settings(network_policies=of_all, lease=settings.lease)
    policy = objects["NetworkPolicy", "tools", "fulmen-operator"]["spec"]
    assert policy["podSelector"] == spec["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    metrics = [{"port": "metrics", "protocol": "TCP"}]
    assert policy["ingress"] == [{"ports": metrics, "from": [{"a": "b"}]}]
    assert {"name": "metrics", "containerPort": settings.metrics_port} in container["ports"]
    assert [[(p["port"], p["protocol"]) for p in rule["ports"]] for rule in policy["egress"]] == [
        [(443, "TCP"), (6443, "TCP")],
        [(53, "UDP"), (53, "TCP")],
    ]


def test_pod_monitors_on_demand():
    objects = template(
        "podMonitor.enabled=true",
        "podMonitor.labels.release=prometheus",
        "podMonitor.authorization.credentials.name=page",
    )
    monitor = objects["PodMonitor", "tools", "fulmen-drivers"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "page"}}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = monitor["spec"]["selector"]["matchLabels"]
    assert labels["app.kubernetes.io/component"] == "driver"


def test_alerts_on_demand():
    rule = template("prometheusRule.enabled=true", "prometheusRule.labels.release=prometheus")[
        "PrometheusRule", "tools", "fulmen-topologies"
    ]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == yaml.safe_load(ALERTS.read_text(encoding="utf-8"))


def test_the_dashboard_on_demand(tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "fulmen", ignore=lambda *_: ["dashboards"])
    wanted = "grafanaDashboard.enabled=true"
    assert "Write it with: make dashboard" in helm("template", chart, "--set", wanted, fails=True)
    (chart / "dashboards").mkdir()
    (chart / "dashboards" / "topology.json").write_text(json.dumps(dashboard()), encoding="utf-8")
    objects = template(wanted, "grafanaDashboard.labels.boards=mine", chart=chart)
    config_map = objects["ConfigMap", "tools", "fulmen-dashboard"]
    labels = config_map["metadata"]["labels"]
    assert (labels["grafana_dashboard"], labels["boards"]) == ("1", "mine")
    assert json.loads(config_map["data"]["fulmen-topology.json"]) == dashboard()


def test_values_that_do_not_exist_are_refused():
    text = helm("template", "x", str(CHART), "--set", "imagee=x", fails=True)
    assert "imagee" in text


def test_every_value_is_in_the_schema_and_explained():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    for name, value in values.items():
        if "properties" in schema["properties"][name]:
            assert set(value) == set(schema["properties"][name]["properties"])
