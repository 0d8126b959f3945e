"""How long calls take: `python -m benchmarks.calls --workers 1,2 --rates 100,1000`.

A client sends calls at a fixed rate over HTTP, whether or not earlier ones are answered, so a call
that waits delays no other one. Beside it, in the same run, the same client asks a bare server of
the same library. Fulmen is started by `fulmen run`, on Spark.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import yaml
from aiohttp import web

from benchmarks import running
from benchmarks.machine import bare, machine

START_SECONDS = 120


def topology(workers: int, port: int) -> dict[str, Any]:
    """A call, a bolt and the answer."""
    shuffle = {"type": "shuffle"}
    return {
        "apiVersion": "fulmen.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "calls"},
        "spec": {
            "workers": workers,
            "code": {"folder": str(running.TOPOLOGIES)},
            "spouts": [
                {
                    "name": "echo",
                    "class": "fulmen.connectors.http.CallSpout",
                    "config": {
                        "port": port,
                        "format": {"type": "json", "fields": {"number": "int64"}},
                    },
                }
            ],
            "bolts": [
                {
                    "name": "same",
                    "class": "echo.Echo",
                    "parallelism": workers,
                    "inputs": [{"from": "echo", "grouping": shuffle}],
                },
                {
                    "name": "answer",
                    "class": "fulmen.connectors.http.Return",
                    "inputs": [{"from": "same", "grouping": shuffle}],
                },
            ],
        },
    }


@contextlib.contextmanager
def fulmen(workers: int) -> Iterator[tuple[str, int]]:
    """The address of a running topology, and its process."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "calls.yaml")
        file.write_text(yaml.safe_dump(topology(workers, port)), encoding="utf-8")
        program = Path(sys.executable).with_name("fulmen")
        command = [str(program), "run", str(file), "--checkpoint", f"{folder}/c"]
        with _ended(command) as process:
            yield f"http://127.0.0.1:{port}/echo", process


@contextlib.contextmanager
def bare_server() -> Iterator[tuple[str, int]]:
    """The address of a server that reads JSON and answers, and its process."""
    port = _free_port()
    with _ended([sys.executable, "-m", "benchmarks.calls", "--serve", str(port)]) as process:
        yield f"http://127.0.0.1:{port}/echo", process


@contextlib.contextmanager
def _ended(command: list[str]) -> Iterator[int]:
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(60)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def serve(port: int) -> None:
    """Be the bare server."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response((await request.json())["number"])

    app = web.Application()
    app.router.add_post("/echo", answer)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


async def _asked(url: str, rate: float, seconds: float) -> tuple[list[float], Counter[Any]]:
    """Milliseconds of each call from when it was due, and how many had which status."""
    took: list[float] = []
    statuses: Counter[Any] = Counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(n: int, due: float) -> None:
            try:
                async with session.post(url, json={"number": n}) as answered:
                    is_right = answered.status == 200 and await answered.json() == n
                    statuses[answered.status if is_right else f"{answered.status}, wrong"] += 1
            except aiohttp.ClientError as error:
                statuses[type(error).__name__] += 1
            took.append((time.perf_counter() - due) * 1000)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for n in range(int(rate * seconds)):
                due = began + n / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(ask(n, due))
    return took, statuses


async def _answers(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(START_SECONDS * 2):
            with contextlib.suppress(aiohttp.ClientError):
                async with session.post(url, json={"number": 0}) as answered:
                    if answered.status == 200:
                        return
            await asyncio.sleep(0.5)
    raise TimeoutError(f"{url} does not answer")


def measured(url: str, process: int, rate: float, options: Any) -> dict[str, Any]:
    """The latencies and the CPU of calls at a rate, when all is warm."""
    asyncio.run(_asked(url, rate, options.warm))
    before = running.cpu_seconds_of(process)
    took, statuses = asyncio.run(_asked(url, rate, options.seconds))
    p50, p99 = np.percentile(took, (50, 99))
    return {
        "rate": rate,
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "cpu_ms": round((running.cpu_seconds_of(process) - before) / len(took) * 1000, 2),
        "statuses": dict(statuses),
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = lambda text: [int(one) for one in text.split(",")]  # noqa: E731
    parser.add_argument("--workers", type=numbers, default=[1, 2])
    parser.add_argument("--rates", type=numbers, default=[100, 1000])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm", type=float, default=20)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print(machine(), *bare(options))
    for what in (None, *options.workers):
        with bare_server() if what is None else fulmen(what) as (url, process):
            asyncio.run(_answers(url))
            for rate in options.rates:
                name = {"server": "bare"} if what is None else {"workers": what}
                print(json.dumps({**name, **measured(url, process, rate, options)}), flush=True)


if __name__ == "__main__":
    main()
