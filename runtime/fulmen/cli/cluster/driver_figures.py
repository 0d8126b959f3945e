"""What a driver on a cluster, or a run's server at a URL, says of its topology, as JSON."""

import os
import urllib.error
import urllib.request
from http.client import HTTPException

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl
from fulmen.cli.cluster.port_forward import Forward
from fulmen.errors import FulmenError
from fulmen.kube.contract import METRICS_PORT
from fulmen.metrics import TOKEN_ENV, credentials

_URL_SECONDS = 10.0
_PATH = "api/topology?since=99999999999999"
"""Without the points of its charts."""


def read_pod(kubectl: Kubectl, topology: Json) -> str:
    """What the driver of a topology says, whose status has its pod. FulmenError if nothing.

    The API server's proxy passes on no token. Whoever has one gets there by a port-forward.
    """
    pod = topology["status"]["driverPod"]
    if not _shown():
        return kubectl.read_pod(topology["metadata"]["namespace"], pod, METRICS_PORT, _PATH)
    with Forward(kubectl.of(topology), pod, 0) as forward:
        return _read(f"http://127.0.0.1:{forward.port}", has_proxies=False)


def read_url(url: str) -> str:
    """What a metrics server answers.

    Raises:
        BadInput: It is no URL of one.
        FulmenError: There is none, or it has no figures.
    """
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"--url {url}: must begin with http:// or https://.")
    return _read(url, has_proxies=True)


def _shown() -> dict[str, str]:
    return credentials(os.environ.get(TOKEN_ENV, ""))


def _read(url: str, *, has_proxies: bool) -> str:
    ways = [] if has_proxies else [urllib.request.ProxyHandler({})]
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/{_PATH}", headers=_shown())
        with urllib.request.build_opener(*ways).open(request, timeout=_URL_SECONDS) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode(errors="replace").strip() or error.reason
        raise FulmenError(f"{url} answers {error.code}: {said}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FulmenError(f"{url} does not answer: {reason}.") from error
