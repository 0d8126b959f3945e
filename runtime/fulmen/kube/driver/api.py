"""The little of the Kubernetes API that a driver's pod needs: get, patch and watch.

By the Kubernetes client, but without its models and its watch: these two take another second of CPU
at each start, and 20 MB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from fulmen.errors import FulmenError
from fulmen.kube.contract import GROUP, PLURAL, VERSION

REQUEST_SECONDS = 15
WATCH_SECONDS = 60
"""A watch ends after that long: a connection that died silently is noticed by then."""

Json = dict[str, Any]


class ApiError(FulmenError):
    """The API server refused a request, or can't be reached.

    Attributes:
        request: Method and path.
        status: The status of the answer. 0: there was none, and the request may be repeated.
        reason: The words of the server or the network.
    """

    def __init__(self, request: str, status: int, reason: str) -> None:
        super().__init__(request, status, reason)
        self.request = request
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        what = f"answered {self.status}" if self.status else "does not answer"
        return f"Kubernetes API: {self.request} {what}: {self.reason}"


class Api:
    """Requests as the pod's ServiceAccount, in the pod's namespace. Any thread may use it."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        """`configuration`: which server, and who asks."""
        configuration.retries = False  # whoever asks knows whether, and when, to ask again
        self._client = ApiClient(configuration)
        self._client.user_agent = "fulmen-driver"
        self.url: str = configuration.host
        self._core = f"/api/v1/namespaces/{namespace}"
        self._own = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}"

    @classmethod
    def of_pod(cls, namespace: str) -> Api:
        """The one that every pod is told of."""
        configuration = Configuration()
        config.load_incluster_config(configuration)
        return cls(configuration, namespace)

    def config_map(self, name: str) -> Json:
        """A ConfigMap. ApiError if it can't be had."""
        return self._request("GET", f"{self._core}/configmaps/{name}")

    def topology(self, name: str) -> Json:
        """A Topology. ApiError if it can't be had."""
        return self._request("GET", f"{self._own}/{PLURAL}/{name}")

    def pod(self, name: str) -> Json:
        """A pod. ApiError if it can't be had."""
        return self._request("GET", f"{self._core}/pods/{name}")

    def pods(self, selector: str) -> list[Json]:
        """The pods with these labels. ApiError if they can't be had."""
        return list(
            self._request("GET", f"{self._core}/pods", query={"labelSelector": selector})["items"]
        )

    def patch_pod(self, name: str, uid: str, metadata: Mapping[str, Any]) -> None:
        """Merge `metadata` into that of a pod. ApiError if that can't be done.

        The API server refuses to change a uid. So a pod that has the name by now, but another uid,
        is left as it is.
        """
        change = {"metadata": {**metadata, "uid": uid}}
        self._request("PATCH", f"{self._core}/pods/{name}", change)

    def watch_config_map(self, name: str) -> Iterator[tuple[str, Json]]:
        """A ConfigMap as it is, and what happens to it then: (type of the event, object).

        It is told first since no resourceVersion is named. If there is none, it is when it is made.
        Ends after a while, or when the server wants it. ApiError if it can't be watched.
        """
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={name}",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        path = f"{self._core}/configmaps"
        answer = self._open("GET", path, None, query, WATCH_SECONDS + REQUEST_SECONDS)
        try:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError("watch", status.get("code", 0), status.get("message", ""))
                yield event["type"], event["object"]
        except (OSError, HTTPError, ValueError) as e:
            raise ApiError(f"GET {path}", 0, str(e) or type(e).__name__) from e
        finally:
            answer.close()

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        answer = self._open(method, path, body, query, REQUEST_SECONDS)
        try:
            content: Json = json.loads(answer.data)
        except (OSError, HTTPError, ValueError) as e:
            raise ApiError(f"{method} {path}", 0, str(e) or type(e).__name__) from e
        return content

    def _open(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
        seconds: float,
    ) -> BaseHTTPResponse:
        try:
            sent = self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={
                    "Accept": "application/json",
                    "Content-Type": "application/merge-patch+json",
                },
                body=body,
                auth_settings=["BearerToken"],
            )
            answer: BaseHTTPResponse = self._client.call_api(
                *sent, _request_timeout=seconds
            ).response
            reason = _message(answer.data) if answer.status >= 300 else ""
        except (OSError, HTTPError) as e:  # OSError: the token can't be read
            raise ApiError(f"{method} {path}", 0, str(e) or type(e).__name__) from e
        if answer.status >= 300:
            raise ApiError(f"{method} {path}", answer.status, reason)
        return answer


def _message(body: bytes) -> str:
    """The message in an error answer of the server."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
