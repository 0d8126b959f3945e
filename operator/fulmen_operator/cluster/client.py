"""The API server, by the Kubernetes client. Nothing else of the operator imports that."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from fulmen_operator.cluster.api import CallFailed, Form, Method, words_of
from fulmen_operator.cluster.server_clock import DATE, ServerClock
from fulmen_operator.metrics import REQUESTS
from fulmen_operator.model import Object

TIMEOUT_SECONDS: Final = 30
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_CONTENT: Final[Mapping[tuple[Method, Form], str]] = {
    ("PATCH", Form.WHOLE): "application/apply-patch+yaml",
    ("PATCH", Form.MERGE): "application/merge-patch+json",
}


class KubernetesApi:
    """Kubernetes' API, for as long as the context is open."""

    def __init__(self) -> None:
        self._client: ApiClient | None = None
        self._clock = ServerClock(lambda: datetime.now(UTC))

    def now(self) -> datetime:
        """The time, as `ApiServer.now`; that of this machine until the server has answered."""
        return self._clock.now()

    async def __aenter__(self) -> "KubernetesApi":
        configuration = Configuration()
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config(configuration)
        else:
            await config.load_kube_config(client_configuration=configuration)
        self._client = ApiClient(configuration)
        self._client.user_agent = "fulmen-operator"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._client is not None, "entered before"
        await self._client.close()

    async def call(
        self,
        method: Method,
        path: str,
        body: Object | None = None,
        query: Mapping[str, str] | None = None,
        form: Form = Form.WHOLE,
    ) -> dict[str, Any]:
        """Make one call, as `ApiServer.call`."""
        what = f"{method} {path}"
        REQUESTS.labels(method).inc()
        headers = {
            "Accept": _METADATA if form is Form.METADATA else "application/json",
            "Content-Type": _CONTENT.get((method, form), "application/json"),
        }
        try:
            status, text = await self._send(method, path, body, query, headers)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise CallFailed(0, f"{type(error).__name__}: {error}", what) from error
        if status >= 400:
            raise CallFailed(status, words_of(text), what)
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def _send(
        self,
        method: Method,
        path: str,
        body: Object | None,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
    ) -> tuple[int, str]:
        assert self._client is not None, "only within the context"
        sent = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params=dict(headers),
            body=body,
            auth_settings=["BearerToken"],
        )
        asked = self.now()
        response = await self._client.call_api(*sent, _request_timeout=TIMEOUT_SECONDS)
        self._clock.hear(response.headers.get(DATE), asked)
        data = await response.read()
        return response.status, data.decode()
