"""Reads figures of a topology over HTTP, of a driver on a cluster or of a run's server at a URL."""

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl
from fulmen.cli.cluster.port_forward import Forward
from fulmen.errors import FulmenError
from fulmen.kube.contract import METRICS_PORT
from fulmen.metrics import TOKEN_ENV, credentials

_SECONDS = 10.0
_PATH = "api/topology?since=99999999999999"
"""Without the points of its charts."""
_LOOPBACK = "http://127.0.0.1:"


def checked_url(url: str) -> str:
    """A URL as the user gave it. BadInput if it is none."""
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"--url {url}: must begin with http:// or https://.")
    return url


def read_pod(kubectl: Kubectl, topology: Json) -> str:
    """Read the figures from the driver's pod in the status. FulmenError if there are none.

    The API server's proxy passes on no token. Whoever has one gets there by a port-forward.
    """
    pod = topology["status"]["driverPod"]
    if not _shown():
        return kubectl.read_pod(topology["metadata"]["namespace"], pod, METRICS_PORT, _PATH)
    with Forward(kubectl.of(topology), pod) as forward:
        return _read(forward.url)


def read_url(url: str) -> str:
    """Read the figures from a metrics server. BadInput if it is no URL of one."""
    return _read(checked_url(url))


def _read(url: str) -> str:
    try:
        with opened(url, _PATH, _SECONDS) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise FulmenError(f"{url} answers {error.code}: {said(error)}") from error


@contextmanager
def opened(
    url: str, path: str, seconds: float, *, content: bytes | None = None
) -> Iterator[HTTPResponse]:
    """A server's answer: to a GET, or to a POST with a content.

    A port-forward is not reached through a proxy. HTTPError if it refuses.
    """
    request = urllib.request.Request(f"{url.rstrip('/')}/{path}", headers=_shown(), data=content)
    ways = [urllib.request.ProxyHandler({})] if url.startswith(_LOOPBACK) else []
    try:
        with urllib.request.build_opener(*ways).open(request, timeout=seconds) as answer:
            yield answer
    except urllib.error.HTTPError:
        raise
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FulmenError(f"{url} does not answer: {reason}.") from error


def said(error: urllib.error.HTTPError) -> str:
    """The server's reason for a refusal."""
    with error:
        return error.read().decode(errors="replace").strip() or str(error.reason)


def _shown() -> dict[str, str]:
    return credentials(os.environ.get(TOKEN_ENV, ""))
