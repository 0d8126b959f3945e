"""The API `metrics.k8s.io` for one cluster: tells autoscalers how much CPU pods use.

A stand-in for a metrics server, whose answers a test decides; the autoscaler that asks is
Kubernetes' own. The API server passes requests on to this machine.
"""

import json
import ssl
import subprocess
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse
from urllib.request import urlopen

from support.cluster.kube import eventually

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
SERVICE = "test-metrics"


@contextmanager
def running_metrics_api(kube, folder, address):
    """Serve it on this machine, registered in the cluster for as long as the context is open.

    Args:
        kube: The namespace that the Service for it is made in.
        folder: For its certificate.
        address: Of this machine, where the API server reaches it.

    Yields:
        A `Usage`, by which a test says how much CPU pods use.
    """
    usage = Usage(kube)
    server = ThreadingHTTPServer((address, 0), handler(usage))
    server.socket = tls(folder).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        service, api_service = objects(kube.namespace, address, server.server_port)
        kube.apply(*service)
        # before the nodes know it, its address may lead anywhere, by connections that are kept
        eventually(lambda: asked(kube), lambda name: name == GROUP, 60, "the Service answers")
        kube.apply(api_service)
        available = ("Available", "True")
        eventually(
            lambda: availability(kube), lambda c: c[:2] == available, 60, "metrics.k8s.io answers"
        )
        yield usage
    finally:
        kube.run("delete", "apiservice", f"{VERSION}.{GROUP}", "--ignore-not-found")
        server.shutdown()
        thread.join()
        server.server_close()


class Usage:
    """What the pods of a namespace use.

    Attributes:
        millicores: Of each pod.
    """

    def __init__(self, kube):
        self.kube = kube
        self.millicores = 0

    def of_pods(self, selector):
        """A PodMetricsList of the running pods with these labels."""
        pods = self.kube.list("pods", selector)
        return {
            "kind": "PodMetricsList",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {},
            "items": [self._of(p) for p in pods if p["status"]["phase"] == "Running"],
        }

    def _of(self, pod):
        usage = {"cpu": f"{self.millicores}m", "memory": "100Mi"}
        names = [container["name"] for container in pod["spec"]["containers"]]
        return {
            "metadata": {"name": pod["metadata"]["name"], "namespace": self.kube.namespace},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "window": "1s",
            "containers": [{"name": name, "usage": usage} for name in names],
        }


def handler(usage):
    """Answers the API server's requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlparse(self.path)
            if url.path.endswith("/pods"):
                (selector,) = parse_qs(url.query).get("labelSelector", [""])
                answer = usage.of_pods(selector)
            else:  # what the API server looks at to find out whether it is there
                resource = {"name": "pods", "singularName": "", "namespaced": True}
                resource |= {"kind": "PodMetrics", "verbs": ["get", "list"]}
                answer = {"kind": "APIResourceList", "apiVersion": "v1"}
                answer |= {"groupVersion": f"{GROUP}/{VERSION}", "resources": [resource]}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def tls(folder):
    """With a certificate of its own, which the API server is told not to look at."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=metrics", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def objects(namespace, address, port):
    """What leads to it: a Service, and what tells the API server of that."""
    name = {"name": SERVICE, "namespace": namespace}
    labels = {"kubernetes.io/service-name": SERVICE}
    ports = [{"name": "https", "port": port}]
    service = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": name,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**name, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]}],
            "ports": ports,
        },
    ]
    return service, {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": name,
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def asked(kube):
    """The API group that answers at the Service's address; empty: none does."""
    address = kube.get("service", SERVICE)["spec"]["clusterIP"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        url = f"https://{address}/apis/{GROUP}/{VERSION}"
        with urlopen(url, timeout=5, context=context) as answer:
            return json.load(answer)["groupVersion"].partition("/")[0]
    except (OSError, ValueError, KeyError):
        return ""


def availability(kube):
    """Whether the API server finds it, and why not: the condition's type, status and message."""
    found = kube.get("apiservice", f"{VERSION}.{GROUP}") or {}
    conditions = found.get("status", {}).get("conditions", [])
    return next(((c["type"], c["status"], c.get("message")) for c in conditions), ())
