"""Who has asked the API server for what, by its own log of requests."""

import re
import subprocess
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

LOGGED = re.compile(
    r'"HTTP" verb="(\w+)" URI="([^"]+)".* userAgent="([^"]*)".* (?:resp=(\d+)|hijacked=true)'
)
SHOWN, HIDDEN = 3, 0
"""How much the server logs: with each request, and as it does by default."""


@contextmanager
def logged(log):
    """Let the server log all requests; gives the requests of clients whose names begin so."""
    begin = log.stat().st_size
    _set_level(SHOWN)

    def of(*agents):
        with log.open(encoding="utf-8", errors="replace") as lines:
            lines.seek(begin)
            found = [match.groups() for line in lines if (match := LOGGED.search(line))]
        allowed = [entry for entry in found if entry[3] not in ("401", "403")]
        asked = (asked_for(v, uri) for v, uri, agent, _ in allowed if agent.startswith(agents))
        return {entry for entry in asked if entry}

    try:
        yield of
    finally:
        _set_level(HIDDEN)


def _set_level(level):
    command = ["kubectl", "replace", "--raw", "/debug/flags/v", "-f", "-"]
    subprocess.run(command, input=str(level), text=True, check=True, capture_output=True)


def asked_for(method, uri):
    """(resource, verb) as a Role names them; nothing, if it is about no object of a namespace."""
    url = urlsplit(uri)
    _, is_in_namespace, rest = url.path.partition("/namespaces/")
    _, *parts = rest.split("/")
    if not is_in_namespace or not parts:
        return None
    resource = "/".join([parts[0], *parts[2:]])
    watches = parse_qs(url.query).get("watch", ["0"])[0] in ("1", "true")
    one = len(parts) > 1
    match method:
        case "GET" | "LIST" | "WATCH":
            return resource, "watch" if watches else "get" if one else "list"
        case "DELETE" | "DELETECOLLECTION":
            return resource, "delete" if one else "deletecollection"
        case "PATCH" | "APPLY":
            return resource, "patch"
        case _:
            return resource, {"POST": "create", "PUT": "update"}[method]
