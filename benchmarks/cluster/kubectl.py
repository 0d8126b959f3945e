"""Calls of `kubectl`."""

from __future__ import annotations

import json
import subprocess

NAME = "benchmark"
NAMESPACE = "fulmen-benchmark"
DRIVERS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=driver"
WORKERS = f"fulmen.dev/topology={NAME},app.kubernetes.io/component=worker"


def kubectl(*args: str, content: str | None = None, namespace: str = NAMESPACE) -> str:
    """Run kubectl; its output."""
    command = ["kubectl", "-n", namespace, *args]
    return subprocess.run(command, input=content, text=True, check=True, capture_output=True).stdout


def pods(selector: str, namespace: str = NAMESPACE) -> list[str]:
    """The names of the pods that run, the newest first."""
    found = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json", namespace=namespace))
    running = [pod["metadata"] for pod in found["items"] if pod["status"]["phase"] == "Running"]
    running.sort(key=lambda meta: str(meta["creationTimestamp"]), reverse=True)
    return [meta["name"] for meta in running]
