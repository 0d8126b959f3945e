"""Calls of `kubectl`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.running import TOPOLOGIES

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


def manifested(content: dict[str, Any]) -> str:
    """A topology with the code of benchmarks, as `kubectl apply` takes it."""
    content["spec"]["code"] = {"folder": str(TOPOLOGIES)}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(yaml.safe_dump(content))
        file.flush()
        fulmen = Path(sys.executable).with_name("fulmen")
        command = [str(fulmen), "manifest", file.name]
        return subprocess.run(command, text=True, check=True, capture_output=True).stdout
