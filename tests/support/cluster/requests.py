"""Who has asked the API server for what, by its own log of requests."""

import os
import re
import subprocess
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

LOGGED = re.compile(
    r'^\w(\d{4} [\d:.]+) .*"HTTP" verb="(\w+)" URI="([^"]+)".* userAgent="([^"]*)".*'
    r" (?:resp=(\d+)|hijacked=true)"
)
SHOWN, HIDDEN = 3, 0
"""How much the server logs: with each request, and as it does by default."""


class Requests:
    """The requests in a server's log, from the log's end as it was when this was made.

    Args:
        log: The log.
        begin: The byte to begin with instead.
    """

    def __init__(self, log, begin=None):
        self._log = log
        self._begin = log.stat().st_size if begin is None else begin

    def asked(self, *agents):
        """(resource, verb) of all that clients were allowed whose names begin so."""
        allowed = [entry for entry in self._logged() if entry[4] not in ("401", "403")]
        asked = (asked_for(v, uri) for _, v, uri, agent, _ in allowed if agent.startswith(agents))
        return {entry for entry in asked if entry}

    def from_now_on(self):
        """Those that are logged later."""
        return Requests(self._log)

    def seconds(self):
        """The time from the first of them to the last, by the server's clock."""
        times = [_moment(time) for time, *_ in self._logged()]
        return times[-1] - times[0] if times else 0.0

    def count(self, namespace, *agents, seconds):
        """How often clients whose names begin so asked for what in a namespace.

        Args:
            namespace: The namespace.
            agents: How the clients' names begin.
            seconds: For how long they are counted, from the first request of anybody.
        """
        logged = self._logged()
        return Counter(
            asked_for(verb, uri)
            for time, verb, uri, agent, _ in logged
            if agent.startswith(agents)
            and f"/namespaces/{namespace}/" in uri
            and _moment(time) - _moment(logged[0][0]) <= seconds
        )

    def _logged(self):
        """(time, verb, URI, client, status) of each."""
        with self._log.open(encoding="utf-8", errors="replace") as lines:
            lines.seek(self._begin)
            return [match.groups() for line in lines if (match := LOGGED.search(line))]


def _moment(time):
    """When something was logged, in seconds, by the server's clock."""
    return datetime.strptime(f"2000{time} +0000", "%Y%m%d %H:%M:%S.%f %z").timestamp()


@contextmanager
def logged(log, folder=None):
    """Let the server log all requests; gives them.

    Args:
        log: The server's.
        folder: Of several that read it. The first one's requests are all others' too, and none of
            them knows whether it is the last. None: nobody else does.
    """
    begin = Path(folder, "requests-begin") if folder else None
    if begin:  # written before it has its name: another one may read it at once
        mine = begin.with_name(f"{begin.name}-{os.getpid()}")
        mine.write_text(str(log.stat().st_size))
        with suppress(FileExistsError):
            os.link(mine, begin)
        mine.unlink()
    requests = Requests(log, int(begin.read_text()) if begin else None)
    _set_level(SHOWN)
    try:
        yield requests
    finally:
        if not folder:
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
