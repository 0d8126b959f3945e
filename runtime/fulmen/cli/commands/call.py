"""`fulmen call`: a question to a running topology, and its answer."""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import checked_url, said
from fulmen.cli.cluster.kubectl import Kubectl, cluster_command
from fulmen.cli.cluster.port_forward import Forward, driver_of
from fulmen.cli.streams import echo
from fulmen.cli.topology_file import TopologyFile
from fulmen.errors import FulmenError
from fulmen.topology.configuration.placeholders import Unset, resolved
from fulmen.topology.problems import did_you_mean, there_are

TOKEN_VARIABLE = "FULMEN_CALL_TOKEN"
LINES = "application/x-ndjson"
CALL_SPOUT = "fulmen.connectors.http.CallSpout"
_WITHOUT_DRIVER = "nobody answers calls"
_SUFFIXES = (".yaml", ".yml", ".py", ".json")
_EVERYWHERE = ("0.0.0.0", "::", "")
_MENDED_BY_CALLERS = range(400, 500)
_TOO_MANY = 429
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Served:
    """Where a call is answered.

    Attributes:
        host: The address at which its server listens.
        port: Its port.
        token: What clients have to show; "": nothing.
        is_tls: Whether it is HTTPS.
    """

    host: str
    port: int
    token: str
    is_tls: bool

    @property
    def url(self) -> str:
        """The URL of the server, for this machine."""
        host = "localhost" if self.host in _EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


@click.command(short_help="Ask a running topology something.")
@click.argument("topology")
@click.argument("name")
@click.argument("arguments", metavar="[JSON]", required=False)
@click.option(
    "--url",
    metavar="URL",
    help="Of the server that answers calls, instead of what TOPOLOGY says: of a Service, or of a"
    " run on another machine.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the answer, and with --each for each value.",
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Try again for so long while nobody listens, as when the topology has just been started.",
)
@click.option(
    "--key",
    metavar="TEXT",
    help="An Idempotency-Key: a call that comes again with it is not run again.",
)
@click.option(
    "--each",
    is_flag=True,
    help="Print each value of an answer with many when it comes, one a line.",
)
@click.option(
    "--cacert",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="With HTTPS: the authorities that may have signed the server's certificate.",
)
@click.option(
    "--cert",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="With HTTPS: your certificate and its key, if the server wants one.",
)
@cluster_command
def call(
    kubectl: Kubectl,
    topology: str,
    name: str,
    arguments: str | None,
    url: str | None,
    timeout: float,
    wait: float,
    key: str | None,
    each: bool,
    cacert: Path | None,
    cert: Path | None,
) -> None:
    """Call NAME of TOPOLOGY with the arguments JSON, and print the answer.

    TOPOLOGY is the file of a topology that runs on this machine, or the name of one on a cluster.
    NAME is that of a CallSpout's component, or its option `name`. Without JSON, or with "-", the
    arguments are read from the standard input.

    A token is taken from the variables that the topology's file names, or from FULMEN_CALL_TOKEN.
    On a cluster the call goes through `kubectl port-forward`, so you need the right to create
    pods/portforward.
    """
    content = _content(arguments)
    context = ssl.create_default_context(cafile=cacert)
    if cert is not None:
        try:
            context.load_cert_chain(cert)
        except OSError as error:  # an SSLError is one
            raise BadInput(f"--cert {cert}: it can't be used: {error}.") from error
    with _way(kubectl, topology, name, url) as (server, token):
        request = urllib.request.Request(
            f"{server.rstrip('/')}/{name}",
            data=content,
            headers=_headers(token, key, each=each),
            method="POST",
        )
        wait_until = time.monotonic() + wait
        for line in _answer(request, context, timeout, name, wait_until):
            echo(line)


def _content(arguments: str | None) -> bytes:
    """The arguments as they are sent. BadInput if they are not JSON."""
    is_typed = arguments in (None, "-")
    text = sys.stdin.read() if is_typed else str(arguments)
    try:
        json.loads(text)
    except ValueError as error:
        hint = "" if is_typed else ' Put them into quotes: \'{"url": "fulmen.dev"}\'.'
        raise BadInput(f"the arguments are not JSON: {error}.{hint}") from error
    return text.encode()


@contextmanager
def _way(kubectl: Kubectl, topology: str, name: str, url: str | None) -> Iterator[tuple[str, str]]:
    """Where the server is, and the token that it wants."""
    given = os.environ.get(TOKEN_VARIABLE, "")
    if url is not None:
        yield checked_url(url), given
        return
    path = Path(topology)
    if path.suffix in _SUFFIXES or path.is_file():
        if kubectl.flags:
            raise BadInput("--namespace and --context are for a topology on a cluster.")
        served = served_at(TopologyFile(path).document(), name, given)
        yield served.url, served.token
        return
    found = kubectl.get(topology)
    served = served_at(found, name, given)
    if served.is_tls:
        raise BadInput(
            f"call {name!r} of topology {topology!r} is served with HTTPS, and the way through"
            " kubectl has no name that a certificate could be of. Give --url of its Service or"
            " Ingress."
        )
    pod = driver_of(found, _WITHOUT_DRIVER)
    with Forward(kubectl.of(found), pod, to=served.port) as forward:
        yield forward.url, served.token


def served_at(document: Any, name: str, token: str) -> Served:
    """Where a topology answers a call.

    Args:
        document: The topology.
        name: Of the call.
        token: What to show instead of what the topology says; "": what it says.

    Raises:
        BadInput: It has no such call, or its config can't be understood here.
    """
    spouts = document.get("spec", {}).get("spouts", []) if isinstance(document, Mapping) else []
    of_name = {_name_of(spout): spout for spout in spouts if _answers(spout)}
    if name not in of_name:
        known = f"{there_are(sorted(of_name))} {did_you_mean(name, of_name)}".rstrip()
        raise BadInput(f"there is no call {name!r}. {known if of_name else _NO_CALLS}")
    config, wrong = resolved(of_name[name].get("config") or {}, os.environ)
    wrong = [one for one in wrong if isinstance(one, Unset) and _matters(one, token)]
    if wrong:
        variables = ", ".join(sorted({one.variable for one in wrong if isinstance(one, Unset)}))
        raise BadInput(
            f"call {name!r}: its config takes {variables} from the environment, which is not set"
            f" here. Set it, or for a token {TOKEN_VARIABLE}."
        )
    try:
        port = int(config.get("port") or 0)
    except (TypeError, ValueError):
        port = 0
    if not port:
        raise BadInput(f"call {name!r}: its config has no fixed `port`. Give --url.")
    return Served(
        host=str(config.get("host", "127.0.0.1")),
        port=port,
        token=token or str(config.get("token") or ""),
        is_tls=bool(config.get("tls")),
    )


_NO_CALLS = (
    f"The topology has none: those are answered by spouts of the class {CALL_SPOUT}. For a class"
    " that is derived from it, give --url."
)


def _answers(spout: Any) -> bool:
    return isinstance(spout, Mapping) and spout.get("class") == CALL_SPOUT


def _name_of(spout: Mapping[str, Any]) -> str:
    config = spout.get("config")
    named = config.get("name") if isinstance(config, Mapping) else None
    return str(named or spout.get("name"))


def _matters(unset: Unset, token: str) -> bool:
    """Whether a client needs that value."""
    what = unset.place[0] if unset.place else ""
    return what in ("port", "host") or (what == "token" and not token)


def _headers(token: str, key: str | None, *, each: bool) -> dict[str, str]:
    shown = {"Authorization": f"Bearer {token}"} if token else {}
    known = {"Idempotency-Key": key} if key else {}
    accepted = {"Accept": LINES} if each else {}
    return {"Content-Type": "application/json", **shown, **known, **accepted}


def _answer(
    request: urllib.request.Request,
    context: ssl.SSLContext,
    seconds: float,
    name: str,
    wait_until: float,
) -> Iterator[str]:
    """Yield the lines of the answer. Raises what says why there is none.

    Args:
        request: The call.
        context: For HTTPS.
        seconds: How long to wait for the answer.
        name: Of the call.
        wait_until: Till when somebody may begin to listen, on the steady clock.
    """
    ways = [urllib.request.HTTPSHandler(context=context)]
    proxies = [] if _is_elsewhere(request) else [urllib.request.ProxyHandler({})]
    opener = urllib.request.build_opener(*ways, *proxies)
    try:
        with _opened(opener, request, seconds, wait_until) as answer:
            is_each = answer.headers.get_content_type() == LINES
            yield from _values(answer, name) if is_each else _lines(answer)
    except urllib.error.HTTPError as error:
        raise _refused(error, name) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionRefusedError):
            reason = "nobody listens there. Does the topology run?"
        elif isinstance(reason, TimeoutError):
            reason = f"it did not within {seconds:g} s (--timeout)"
        elif request.type == "https" and _is_ended(reason):
            reason = f"{reason}. Perhaps it wants a certificate that it trusts: --cert"
        raise FulmenError(f"{request.full_url} does not answer: {reason}") from error


def _is_ended(reason: object) -> bool:
    """Whether the server has ended a connection of TLS, as it does with whom it does not trust."""
    is_cut = isinstance(reason, ssl.SSLEOFError | ConnectionError | HTTPException)
    return is_cut or (isinstance(reason, ssl.SSLError) and "ALERT" in str(reason.reason))


def _opened(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    seconds: float,
    wait_until: float,
) -> HTTPResponse:
    while True:
        try:
            answer: HTTPResponse = opener.open(request, timeout=seconds)
        except urllib.error.URLError as error:
            is_refused = isinstance(error.reason, ConnectionRefusedError)
            if not is_refused or time.monotonic() >= wait_until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return answer


def _is_elsewhere(request: urllib.request.Request) -> bool:
    host = request.host.rpartition(":")[0].strip("[]")
    return host not in ("127.0.0.1", "localhost", "::1")


def _lines(answer: HTTPResponse) -> Iterator[str]:
    for line in answer:
        yield line.decode(errors="replace").rstrip("\r\n")


def _values(answer: HTTPResponse, name: str) -> Iterator[str]:
    """Yield the values that come one after another, and raise what says why there are no more."""
    for line in answer:
        part = json.loads(line)
        if "value" in part:
            yield json.dumps(part["value"], ensure_ascii=False, separators=(",", ":"))
        elif "error" in part:
            raise FulmenError(f"call {name!r} got {part['status']}: {part['error']}.")
        else:
            return
    raise HTTPException("the connection broke before the end of the answer")


def _refused(error: urllib.error.HTTPError, name: str) -> FulmenError:
    text = said(error)
    try:
        reason = json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        reason = text
    again = error.headers.get("Retry-After")
    hint = f" Try again in {again} s." if again else ""
    message = f"call {name!r} got {error.code}: {reason}.{hint}"
    is_callers = error.code in _MENDED_BY_CALLERS and error.code != _TOO_MANY
    return (BadInput if is_callers else FulmenError)(message)
