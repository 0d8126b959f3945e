"""What tests on a cluster ask of its API without kubectl, whose start costs more than the answer.

Tests look again and again while they wait, several of them at once.
"""

import json
import math
import time
from contextlib import contextmanager
from functools import cache

from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from urllib3.exceptions import HTTPError

from fulmen_operator.cluster.api import KINDS, Kind

REQUEST_SECONDS = 60
CONNECT_SECONDS = 10
NOT_FOUND = 404
JSON, MERGE = "application/json", "application/merge-patch+json"
CLUSTER_WIDE = {"Node"}
PLACES = {
    **KINDS,
    "Node": Kind("/api/v1", "nodes"),
    "ResourceQuota": Kind("/api/v1", "resourcequotas"),
}
NAMES = {
    **{kind.lower(): kind for kind in PLACES},
    **{of.plural: kind for kind, of in PLACES.items()},
    "pvc": "PersistentVolumeClaim",
}
"""What kinds are called here, as kubectl is told them."""


class RefusedError(AssertionError):
    """The API server has not done it.

    Attributes:
        status: Of its answer; 0: there was none.
    """

    def __init__(self, what, status, words):
        super().__init__(f"{what}: {words} ({status})")
        self.status = status


def path_of(kind, namespace, name=""):
    """The path of an object, or of all of a kind."""
    full = NAMES[kind]
    return PLACES[full].path("" if full in CLUSTER_WIDE else namespace, name)


def get(kind, namespace, name):
    """An object; None if there is none."""
    try:
        found = json.loads(text(path_of(kind, namespace, name)))
    except RefusedError as refused:
        if refused.status == NOT_FOUND:
            return None
        raise
    return shown(found)


def items(kind, namespace, **query):
    """All objects of a kind that `labelSelector` or `fieldSelector` select, or all."""
    found = json.loads(text(path_of(kind, namespace), **query))
    whole = {"apiVersion": found["apiVersion"], "kind": NAMES[kind]}
    return [shown({**whole, **item}) for item in found["items"]]


def watched(kind, namespace, seconds, **query):
    """The same, as they are, and whenever one changes. Ends after so many seconds, or sooner."""
    deadline = time.monotonic() + seconds
    query |= {"watch": "1", "timeoutSeconds": str(math.ceil(seconds))}
    with _opened("GET", path_of(kind, namespace), query, read_seconds=seconds) as answer:
        try:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR" or time.monotonic() > deadline:
                    return
                yield shown(event["object"])
        except (HTTPError, OSError, ValueError):
            return  # the server was away, or the time is over


def text(path, **query):
    """The answer to a GET."""
    return _answer("GET", path, query)


def merge(kind, namespace, name, change):
    """Merge into an object."""
    _answer("PATCH", path_of(kind, namespace, name), {}, change, {"Content-Type": MERGE})


def refusal(kind, namespace, thing, user=""):
    """What the API server says against an object; empty: it would make it. Nothing is made.

    Args:
        kind: Of the object.
        namespace: Where it would be.
        thing: The object.
        user: Who asks; empty: the tests.
    """
    headers = {"Content-Type": JSON}
    headers |= {"Impersonate-User": user} if user else {}
    try:
        _answer("POST", path_of(kind, namespace), {"dryRun": "All"}, thing, headers)
    except RefusedError as refused:
        if not refused.status:
            raise
        return str(refused)
    return ""


def may(namespace, user, verb, resource, group="", name=""):
    """Whether the API server lets a user do this in a namespace."""
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "resourceAttributes": {**asked, "namespace": namespace, "name": name},
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = _answer("POST", path, {}, review, {"Content-Type": JSON})
    return json.loads(answer)["status"]["allowed"]


def shown(thing):
    """An object as kubectl shows it: without who owns which field."""
    thing["metadata"].pop("managedFields", None)
    return thing


def _answer(method, path, query, body=None, headers=None):
    with _opened(method, path, query, body, headers=headers) as answer:
        try:
            return answer.data.decode()
        except (HTTPError, OSError) as error:
            raise RefusedError(f"{method} {path}", 0, repr(error)) from error


@contextmanager
def _opened(method, path, query, body=None, read_seconds=REQUEST_SECONDS, headers=None):
    """The answer to a request. RefusedError if there is none or it says no."""
    client = _client()
    sent = client.param_serialize(
        method,
        path,
        query_params=list(query.items()),
        header_params={"Accept": JSON, **(headers or {})},
        body=body,
        auth_settings=["BearerToken"],
    )
    try:
        answer = client.call_api(*sent, _request_timeout=(CONNECT_SECONDS, read_seconds)).response
        if answer.status >= 300:
            raise RefusedError(f"{method} {path}", answer.status, _words(answer.data.decode()))
    except (HTTPError, OSError) as error:
        raise RefusedError(f"{method} {path}", 0, repr(error)) from error
    try:
        yield answer
    finally:
        answer.close()


def _words(text):
    """What a refusal says."""
    try:
        return json.loads(text)["message"]
    except (ValueError, KeyError):
        return text[:500]


@cache
def _client():
    configuration = Configuration()
    config.load_kube_config(client_configuration=configuration)
    configuration.retries = False
    return ApiClient(configuration)
