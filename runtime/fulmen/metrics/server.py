"""Serves metrics and the page over HTTP, from a thread beside the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from email.message import Message
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from fulmen.engine.driver.taps.taps import Taps
from fulmen.engine.driver.taps.wanted_tap import TapRefused, WantedTap
from fulmen.engine.totals.totals import Totals
from fulmen.errors import FulmenError
from fulmen.metrics.access import EVERYBODY, TOKEN_ENV, AccessRules, is_foreign, is_from_here
from fulmen.metrics.answers import Answer
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.dead_letters import Content, LetterAnswers, no_content
from fulmen.metrics.families.topology import TopologyCollector
from fulmen.metrics.history import STEPS, History
from fulmen.metrics.page import Page
from fulmen.metrics.snapshot import Snapshot
from fulmen.serving import BoundedHandler, BoundedServer

TAP, LETTERS = "/api/tap", "/api/dead-letters"
_NOT_FROM_HERE = (
    "Tuples are shown to the server's own machine, as through a port-forward, and to those who show"
    f" a token: this server has none in {TOKEN_ENV}.\n"
)
_SILENT_SECONDS = 1.0
"""Without a tuple; then a client that has gone is noticed."""
Scaling = Callable[[], Mapping[str, Any] | None]
"""What there is to say of a number of workers that follows the load; None: it does not."""


class Site:
    """The pages and figures of one topology, by address."""

    def __init__(
        self,
        totals: Callable[[], Totals | None],
        history: History,
        probes: Mapping[str, Callable[[], bool]] | None = None,
        access: AccessRules = EVERYBODY,
        taps: Taps | None = None,
        scaling: Scaling = lambda: None,
    ) -> None:
        self._access = access
        self._taps = taps or Taps()
        self._scaling = scaling
        self._letters = LetterAnswers(self._taps, totals)
        self._probes = {"/healthz": lambda: True, **(probes or {})}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(TopologyCollector(totals))
        self._totals = totals
        self._history = history
        self._page = Page.read()

    def answer(
        self,
        target: str,
        from_here: bool,
        headers: Message,
        *,
        posts: bool = False,
        content: Content = no_content,
    ) -> Answer:
        """Answer a GET, or a POST. Probes are for everyone.

        Args:
            target: Path and query.
            from_here: Whether the request comes from this machine, or this pod.
            headers: Those of the request.
            posts: Whether it is a POST.
            content: Reads its content, of so many bytes at most.
        """
        try:
            url = urlsplit(target)
        except ValueError:
            return Answer(b"no such address\n", status=HTTPStatus.BAD_REQUEST)
        if url.path not in self._probes:
            shown = headers.get("Authorization", "")
            refusal = self._access.refusal(from_here, headers.get("Host"), shown)
            if refusal is not None:
                return Answer(refusal.reason.encode(), status=refusal.status)
        if url.path in (TAP, LETTERS):
            if is_foreign(headers):
                text = b"Tuples are not shown to pages of others.\n"
                return Answer(text, status=HTTPStatus.FORBIDDEN)
            if not (from_here or self._access.token):
                return Answer(_NOT_FROM_HERE.encode(), status=HTTPStatus.FORBIDDEN)
            if url.path == TAP and not posts:
                return self._tap(url.query)
            if url.path == LETTERS:
                return self._letters.change(url.query, content) if posts else self._letters.show()
        if posts:
            return Answer(b"Only GET.\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        return self._allowed(url, headers.get("Accept", ""))

    def _allowed(self, url: SplitResult, accept: str) -> Answer:
        match url.path:
            case "/":
                return Answer(self._page.html, "text/html; charset=utf-8", policy=self._page.policy)
            case "/metrics":
                encode, content_type = choose_encoder(accept)
                return Answer(encode(self._registry), content_type)
            case path if path in self._probes:
                if self._probes[path]():
                    return Answer(b"ok\n")
                return Answer(b"no\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
            case "/api/topology":
                return self._topology(url.query)
        return Answer(
            b"There are /, /metrics, /healthz, /api/topology, /api/tap and /api/dead-letters.\n",
            status=HTTPStatus.NOT_FOUND,
        )

    def _topology(self, query: str) -> Answer:
        asked = parse_qs(query)
        since, step = asked.get("since", ["0"])[-1], asked.get("step", ["1"])[-1]
        if not since.isdecimal() or len(since) > 15:
            return Answer(b"since: not a number.\n", status=HTTPStatus.BAD_REQUEST)
        if step not in map(str, STEPS):
            text = f"step: there are {', '.join(map(str, STEPS))}.\n".encode()
            return Answer(text, status=HTTPStatus.BAD_REQUEST)
        totals = self._totals()
        if totals is None:
            text = b"The topology has not started yet.\n"
            return Answer(text, status=HTTPStatus.SERVICE_UNAVAILABLE)
        now = Snapshot.of(totals)
        view = TopologyJson(
            now,
            self._history.before() or now,
            self._history.points(int(since), int(step)),
            asked.get("tasks", [""])[-1],
            int(step),
        )
        own = {"tap_allowed": self._taps.is_allowed, "autoscale": self._scaling()}
        shown = {**view.json(), **own}
        return Answer(json.dumps(shown).encode(), "application/json")

    def _tap(self, query: str) -> Answer:
        """Tuples, for those who may forward a port, or show the token: they are an author's data.

        Metrics and the page have none, and whoever reaches the port may read these.
        """
        given = parse_qs(query)
        where = tuple(given.pop("where", ()))
        asked = {name: values[-1] for name, values in given.items()}
        limit = asked.pop("limit", "0")
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= 9):
            return Answer(b"limit: not a number.\n", status=HTTPStatus.BAD_REQUEST)
        if wrong := asked.keys() - {"component", "stream", "tree"}:
            text = f"{min(wrong)}: there are component, stream, where, tree and limit.\n"
            return Answer(text.encode(), status=HTTPStatus.BAD_REQUEST)
        try:
            tap = self._taps.open(WantedTap(**asked, where=where, limit=int(limit)))
        except TapRefused as refused:
            return Answer(f"{refused}\n".encode(errors="backslashreplace"), status=refused.status)
        return Answer(b"", "application/x-ndjson", tap=tap)


def _handler(site: Site) -> type[BoundedHandler]:
    class Handler(BoundedHandler):
        """Answers GET; and POST, where something is to be done."""

        def do_GET(self, *, posts: bool = False) -> None:
            """Answer."""
            from_here = is_from_here(self.client_address[0], self.connection.getsockname()[0])
            answer = site.answer(
                self.path, from_here, self.headers, posts=posts, content=self.content
            )
            with answer.tap or nullcontext():  # it is closed, whatever becomes of the client
                self._send(answer)

        def do_POST(self) -> None:
            """Do what is asked for."""
            self.close_connection = True  # content is read only where it is needed
            self.do_GET(posts=True)

        def refuse(self) -> None:
            """Refuse any other method. Its content is not read, so the connection ends."""
            self.close_connection = True
            text = b"" if self.command == "HEAD" else b"Only GET.\n"
            self._send(Answer(text, status=HTTPStatus.METHOD_NOT_ALLOWED))

        do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET")
                self.send_header("Connection", "close")
            if answer.status == HTTPStatus.UNAUTHORIZED:  # browsers ask for it as for a password
                self.send_header("WWW-Authenticate", 'Basic realm="fulmen", charset="UTF-8"')
            self.send_header("Content-Type", answer.content_type)
            if answer.tap is None:
                self.send_header("Content-Length", str(len(answer.body)))
            else:
                self.send_header("Connection", "close")  # which is how the client sees its end
            self.send_header("Content-Security-Policy", answer.policy)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Referrer-Policy", "no-referrer")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.tap is not None:
                self.close_connection = True
                for line in answer.tap.lines(_SILENT_SECONDS):
                    self.wfile.write(line)

    return Handler


class MetricsServer:
    """A server for as long as it is open."""

    def __init__(
        self,
        host: str,
        port: int,
        totals: Callable[[], Totals | None],
        probes: Mapping[str, Callable[[], bool]] | None = None,
        access: AccessRules = EVERYBODY,
        taps: Taps | None = None,
        scaling: Scaling = lambda: None,
    ) -> None:
        """Listen. Nothing is answered before it is entered.

        Args:
            host: The address to listen on.
            port: 0: a free one.
            totals: Gives those of the driver; None as long as it has not started.
            probes: More paths such as /readyz, and what says whether to answer 200 there, or 503.
            access: Who may read.
            taps: Those of the driver.
            scaling: Says how many workers were chosen by the load, and why.

        Raises:
            FulmenError: It can't listen there.
        """
        self._history = History(totals)
        site = Site(totals, self._history, probes, access, taps, scaling)
        try:
            self._server = BoundedServer((host, port), _handler(site))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FulmenError(
                f"metrics: can't listen on {host}, port {port}: {reason}. Choose another port; 0 "
                "takes a free one."
            ) from error
        self.host = host
        self.port: int = self._server.server_address[1]
        self._open = ExitStack()

    @property
    def url(self) -> str:
        """The URL of the page."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    def __enter__(self) -> Self:
        self._history.start()
        self._open.callback(self._history.stop)
        self._open.enter_context(self._server.running())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
