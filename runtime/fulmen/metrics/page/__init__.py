"""The web page of a running topology: one file for the browser, made of those in this folder.

Uses `engine.protocol`, for the figures that it shows; used by `metrics.server`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fulmen.engine.protocol.figures.statistics import Of, Shown, of_topology, shown

_FOLDER = Path(__file__).parent
SCRIPTS = (
    *("document", "table", "layout", "graph", "charts", "waits", "sections", "transactions"),
    *("times", "taps", "letters", "main"),
)
"""The parts of the script, each of which uses those before it."""


def _figures() -> dict[str, list[dict[str, Any]]]:
    """The declared figures that it shows: of tuples, of components, and of the topology."""
    names = ("of_tuples", "of_components", "of_topology")
    return {
        name: [
            {"name": f, "title": f.heading, "of_bolts": f.of is Of.INPUT, "is_bad": f.is_bad}
            for f in figures
        ]
        for name, figures in zip(names, (*shown(Shown.PAGE), of_topology(Shown.PAGE)), strict=True)
    }


@dataclass(frozen=True)
class Page:
    """The page. It loads nothing else but figures."""

    html: bytes

    @staticmethod
    def read() -> Page:
        """The one that belongs to this package."""
        parts = (_FOLDER.joinpath(f"{name}.js").read_bytes() for name in SCRIPTS)
        script = b"\n".join((f"const FIGURES = {json.dumps(_figures())};".encode(), *parts))
        style = _FOLDER.joinpath("style.css").read_bytes()
        page = _FOLDER.joinpath("page.html").read_bytes()
        page = page.replace(b"<style></style>", b"<style>\n%b</style>" % style)
        return Page(page.replace(b"<script></script>", b"<script>\n%b</script>" % script))

    @cached_property
    def policy(self) -> str:
        """Allows its own style and script, by their hashes, and requests to this server."""
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src {self._hash(b'script')}",
                f"style-src {self._hash(b'style')}",
                "connect-src 'self'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        )

    def _hash(self, tag: bytes) -> str:
        (content,) = re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), self.html, re.DOTALL)
        return f"'sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}'"
