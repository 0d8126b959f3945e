"""Sends the hours of `weather.csv` as `send.py` of the recipe does, by so many clients at once.

`python -m benchmarks.recipes.send_hours CLIENTS`, in the folder that has the file.
"""

from __future__ import annotations

import csv
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

HOURS = 100
"""Of a request."""
PORT = 8080
LIMIT_SECONDS = 90.0
"""After so long a request is not sent again: the server has ended."""


def hours() -> Iterator[str]:
    """The messages, as lines of JSON."""
    with Path("weather.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            temp, gust = (None if row[n] == "NA" else float(row[n]) for n in ("temp", "wind_gust"))
            hour = {"origin": row["origin"], "at": row["time_hour"], "temp": temp, "gust": gust}
            yield json.dumps(hour)


def client(requests: SimpleQueue[tuple[str, Sequence[str]]]) -> None:
    """Send requests, one after the other, each until it is answered with 200."""
    connection = http.client.HTTPConnection("localhost", PORT)
    until = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < until:
        try:
            key, lines = requests.get_nowait()
        except Empty:
            return
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key}
        status = 0
        while status != 200 and time.monotonic() < until:
            try:
                connection.request("POST", "/hours", "\n".join(lines), headers)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                connection.close()
            if status != 200:
                time.sleep(0.1)


def main() -> None:
    """Send everything."""
    lines = list(hours())
    requests: SimpleQueue[tuple[str, Sequence[str]]] = SimpleQueue()
    for first in range(0, len(lines), HOURS):
        requests.put((f"hours-{first}", lines[first : first + HOURS]))
    clients = [threading.Thread(target=client, args=[requests]) for _ in range(int(sys.argv[1]))]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


if __name__ == "__main__":
    main()
