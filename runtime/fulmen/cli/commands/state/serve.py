"""`fulmen state serve`: answers questions about the state in a checkpoint, over HTTP."""

import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import click

from fulmen.checkpoint import Store
from fulmen.cli.bad_input import BadInput
from fulmen.cli.commands.state.kept import KeptState
from fulmen.cli.display.kept_values import plain, windows_of
from fulmen.cli.streams import tell
from fulmen.cli.topology_file import code_folder_type
from fulmen.engine.state.committed_state import read_state
from fulmen.engine.state.questions import AnsweredKeys, StateQuestions
from fulmen.errors import CheckpointError, FulmenError, text_of
from fulmen.metrics import TOKEN_ENV, AccessRules
from fulmen.metrics.access import is_foreign, is_from_here
from fulmen.serving import BoundedHandler, BoundedServer

MOST_KEYS, MOST_ON_A_PAGE, PAGE = 100, 1000, 100
PREFIX = "/state/"
USAGE = (
    "There are /healthz and /state/COMPONENT, with key, as often as needed; or prefix, after and"
    " limit; or windows=true, with a key or without.\n"
)
HERE = ("127.0.0.1", "::1", "localhost")
Reply = tuple[HTTPStatus, Any]
"""The status, and a text or what becomes JSON."""


class StateSite:
    """The answers about one checkpoint."""

    def __init__(self, store: Store, access: AccessRules) -> None:
        self._store, self._access = store, access
        self._questions = StateQuestions(store, time.monotonic)

    def answer(self, target: str, from_here: bool, headers: Message | Mapping[str, str]) -> Reply:
        """Answer a GET."""
        try:
            url = urlsplit(target)
            if url.path == "/healthz":
                return HTTPStatus.OK, "ok\n"
            shown = headers.get("Authorization", "") or ""
            refusal = self._access.refusal(from_here, headers.get("Host"), shown)
            if refusal is not None:
                return refusal.status, refusal.reason
            if is_foreign(headers):
                return HTTPStatus.FORBIDDEN, "State is not shown to pages of others.\n"
            component = unquote(url.path.removeprefix(PREFIX))
            if not url.path.startswith(PREFIX) or not component or "/" in component:
                return HTTPStatus.NOT_FOUND, USAGE
            given = parse_qs(url.query, keep_blank_values=True, max_num_fields=MOST_KEYS + 1)
        except ValueError:
            return HTTPStatus.BAD_REQUEST, f"At most {MOST_KEYS} keys.\n"
        try:
            return self._of(component, given)
        except (CheckpointError, OSError) as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n"
        except (ImportError, AttributeError) as error:  # of a key's or a value's class
            text = f"The state of {component!r} can't be read: {error}. See --code-folder.\n"
            return HTTPStatus.INTERNAL_SERVER_ERROR, text

    def _of(self, component: str, given: dict[str, list[str]]) -> Reply:
        keys = given.pop("key", [])
        if given == {"windows": ["true"]} and len(keys) <= 1:
            return self._windows(component, keys)
        if keys and not given:
            return self._shown(component, self._questions.ask(component, keys))
        limit = given.get("limit", [f"{PAGE}"])[-1]
        is_page = "prefix" in given and not keys and not given.keys() - {"prefix", "after", "limit"}
        if not is_page or not (limit.isascii() and limit.isdecimal() and len(limit) < 10):
            return HTTPStatus.BAD_REQUEST, USAGE
        prefix, after = given["prefix"][-1], given.get("after", [""])[-1]
        count = min(max(int(limit), 1), MOST_ON_A_PAGE)
        found = self._questions.begin_with(component, prefix, after, count + 1)
        return self._shown(component, found, count)

    def _shown(self, component: str, found: AnsweredKeys | None, most: int = 1 << 40) -> Reply:
        if found is None:
            return _no_component(component)
        shown = [
            {"key": plain(one.key), "value": plain(one.value), "task": one.task}
            for one in found.entries[:most]
        ]
        content: dict[str, Any] = {"component": component, "commit": found.number, "entries": shown}
        if len(found.entries) > most:  # whoever wants the next page says what this one ends with
            content["next"] = text_of(found.entries[most - 1].key)
        if found.missing:
            content["missing"] = list(found.missing)
        return HTTPStatus.OK, content

    def _windows(self, component: str, keys: Sequence[str]) -> Reply:
        state = read_state(self._store, component)
        if not state.tasks:
            return _no_component(component)
        rows = windows_of(state, keys[0] if keys else None)
        windows = [plain(row.content) for row in rows]
        return HTTPStatus.OK, {"component": component, "commit": state.number, "windows": windows}


def _no_component(name: str) -> Reply:
    return HTTPStatus.NOT_FOUND, f"The checkpoint has no component {name!r}.\n"


def handler_of(site: StateSite) -> type[BoundedHandler]:
    """The class that answers requests to a site."""

    class Handler(BoundedHandler):
        """Answers GET."""

        def do_GET(self) -> None:
            """Answer."""
            from_here = is_from_here(self.client_address[0], self.connection.getsockname()[0])
            self._send(*site.answer(self.path, from_here, self.headers))

        def refuse(self) -> None:
            """Refuse any other method. Its content is not read, so the connection ends."""
            self.close_connection = True
            text = "" if self.command == "HEAD" else "Only GET.\n"
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, text)

        do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse

        def _send(self, status: HTTPStatus, content: Any) -> None:
            is_text = isinstance(content, str)
            text = content if is_text else json.dumps(content, ensure_ascii=False)
            body = text.encode(errors="backslashreplace")
            self.send_response(status)
            if status == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET")
                self.send_header("Connection", "close")
            kind = "text/plain; charset=utf-8" if is_text else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    return Handler


@click.command(short_help="Answer questions about the state over HTTP.")
@click.argument("checkpoint")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: any that is free.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on. The default lets only this machine ask.",
)
@click.option(
    "--code-folder",
    type=code_folder_type,
    help="The folder with the Python files, if keys or values are objects of their classes.",
)
@click.option(
    "--may-be-empty",
    is_flag=True,
    help="Begin although nothing was committed yet; questions get 404 until something is.",
)
def serve(checkpoint: str, port: int, host: str, code_folder: Any, may_be_empty: bool) -> None:
    """Answer questions about the keyed state in CHECKPOINT as of its newest commit, until Ctrl-C.

    The topology may be running: its batches do not wait for questions, since this is a process of
    its own. GET /state/COMPONENT?key=TEXT gives the value of a key, ?prefix=TEXT the first keys
    that begin like this, and ?windows=true the open windows of an Aggregate, as JSON.
    """
    access = AccessRules.of(os.environ)
    if host not in HERE and not access.token:
        raise BadInput(
            f"--host {host}: others than this machine could read the state. Set {TOKEN_ENV} to a"
            " token that they have to show."
        )
    kept = KeptState(checkpoint, "", code_folder)
    with kept.opened(may_be_empty=may_be_empty) as store:
        try:
            server = BoundedServer((host, port), handler_of(StateSite(store, access)))
        except (OSError, OverflowError) as error:
            raise FulmenError(f"can't listen on {host}, port {port}: {error}") from error
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        with server.running() as bound:
            at = f"[{host}]" if ":" in host else host
            tell(f"state of {store.uri}: http://{at}:{bound}{PREFIX}COMPONENT?key=TEXT")
            try:
                ended.wait()
            except KeyboardInterrupt:
                tell("")
