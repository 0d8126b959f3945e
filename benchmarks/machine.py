"""The machine that figures are measured on: which it is, and what one core of it does."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import running

sys.path.insert(0, str(running.TOPOLOGIES))
from sentences import SENTENCES


def machine() -> str:
    """Its processor, its cores and its Python."""
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _processor() -> str:
    """Its name, where Linux tells it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def bare(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Sentences a second on one core in a Python loop that splits and counts, without Fulmen."""
    counts: dict[str, int] = {}
    n, began = 0, time.perf_counter()
    while time.perf_counter() - began < 2:
        for sentence in SENTENCES:
            for word in sentence.split(" "):
                counts[word] = counts.get(word, 0) + 1
        n += len(SENTENCES)
    return [{"sentences_per_second": round(n / (time.perf_counter() - began))}]
