"""Checks a `podTemplate` against Kubernetes' pod security standards, by their names. Pure.

Whoever may create topologies has the operator make pods for them: a namespace's rules for users
don't apply. In a namespace that enforces no pod security, such pods could take over the node.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

Object = Mapping[str, Any]
Level = Literal["restricted", "baseline", "privileged"]

CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS: Final = ("postStart", "preStop")
BASELINE_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES: Final = (
    None,
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
)
APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"


def forbidden(pod: Object, level: Level) -> list[str]:
    """The parts of a pod that a level forbids, and why; none if it allows everything."""
    if level == "privileged":
        return []
    found = [*_baseline_pod(pod)]
    for place, container in _containers(pod["spec"]):
        found += [f"{place}{text}" for text in _baseline_container(container)]
    if level == "restricted":
        found += [*_restricted(pod["spec"])]
    return found


def _containers(spec: Object) -> Iterator[tuple[str, Object]]:
    for field in CONTAINERS:
        for container in spec.get(field) or ():
            yield f"{field}[{container.get('name', '')}].", container


def _security(thing: Object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = thing.get("securityContext") or {}
    return found


# ---- baseline


def _baseline_pod(pod: Object) -> Iterator[str]:
    spec, annotations = pod["spec"], pod.get("metadata", {}).get("annotations") or {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} shares the node's own"
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            yield f"volumes[{volume.get('name', '')}].hostPath is a folder of the node"
    for sysctl in _security(spec).get("sysctls") or ():
        if sysctl.get("name") not in SYSCTLS:
            yield f"securityContext.sysctls {sysctl.get('name')} is of the node"
    for name, value in annotations.items():
        confined = str(value).startswith(("runtime/default", "localhost/"))
        if name.startswith(APPARMOR) and not confined:
            yield f"the annotation {name} takes AppArmor away"
    yield from _profiles(_security(spec))


def _baseline_container(container: Object) -> Iterator[str]:
    security = _security(container)
    if security.get("privileged"):
        yield "securityContext.privileged gives it the node"
    added = set((security.get("capabilities") or {}).get("add") or ())
    if wrong := sorted(map(str, added - BASELINE_CAPABILITIES)):
        yield f"securityContext.capabilities.add has {', '.join(wrong)}"
    if security.get("procMount") not in (None, "Default"):
        yield "securityContext.procMount is not Default"
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield f"hostPort {port['hostPort']} is a port of the node"
    lifecycle = container.get("lifecycle") or {}
    asked = [container.get(probe) or {} for probe in PROBES]
    asked += [lifecycle.get(hook) or {} for hook in HOOKS]
    for hook in asked:
        hosts = {(hook.get(kind) or {}).get("host") for kind in ("httpGet", "tcpSocket")}
        if hosts - {None, ""}:
            yield "a probe or hook names a host: the kubelet would connect to it"
    yield from _profiles(security)


def _profiles(security: Mapping[str, Any]) -> Iterator[str]:
    """The security profiles of a pod or a container that are not allowed."""
    selinux = security.get("seLinuxOptions") or {}
    if selinux.get("type") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield "securityContext.seLinuxOptions has another type, user or role"
    if (security.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "securityContext.seccompProfile is Unconfined"
    if (security.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield "securityContext.appArmorProfile is Unconfined"
    if (security.get("windowsOptions") or {}).get("hostProcess"):
        yield "securityContext.windowsOptions.hostProcess gives it the node"


# ---- restricted


def _restricted(spec: Object) -> Iterator[str]:
    for volume in spec.get("volumes") or ():
        kinds = {kind for kind, value in volume.items() if kind != "name" and value is not None}
        if wrong := sorted(kinds - VOLUMES - {"hostPath"}):  # baseline names that one
            yield f"volumes[{volume.get('name', '')}] is of the kind {', '.join(wrong)}"
    whole = _security(spec)
    if whole.get("runAsUser") == 0:
        yield "securityContext.runAsUser is root"
    for place, container in _containers(spec):
        for text in _restricted_container(container, whole):
            yield f"{place}securityContext.{text}"


def _restricted_container(container: Object, pod: Mapping[str, Any]) -> Iterator[str]:
    security = _security(container)
    if security.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if {**pod, **security}.get("runAsNonRoot") is not True:
        yield "runAsNonRoot is not true"
    if security.get("runAsUser") == 0:
        yield "runAsUser is root"
    profile = security.get("seccompProfile") or pod.get("seccompProfile") or {}
    if profile.get("type") not in ("RuntimeDefault", "Localhost", "Unconfined"):  # baseline's
        yield "seccompProfile is neither RuntimeDefault nor Localhost"
    capabilities = security.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield "capabilities.drop has not ALL"
    allowed = {"NET_BIND_SERVICE"}
    if wrong := sorted(set(capabilities.get("add") or ()) & BASELINE_CAPABILITIES - allowed):
        yield f"capabilities.add has {', '.join(wrong)}"
