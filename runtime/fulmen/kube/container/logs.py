"""The log of a driver's pod: lines for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime

from typing_extensions import override

from fulmen.engine.worker.author_logs import set_levels
from fulmen.secrets import masked
from fulmen.visible import visible, visible_lines

FORMAT_ENV = "FULMEN_LOG_FORMAT"
"""`json`: a JSON object for each entry. Anything else: lines for people."""


class _Plain(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        level = "" if record.levelno <= logging.INFO else f"{record.levelname} "
        return (
            f"{moment:%Y-%m-%dT%H:%M:%S}Z {level}{visible(record.getMessage())}{_details(record)}"
        )


class _Json(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if details := _details(record).strip():
            entry["traceback"] = details
        return json.dumps(entry, ensure_ascii=False)


def _details(record: logging.LogRecord) -> str:
    """The traceback that belongs to an entry."""
    text = getattr(record, "details", "")
    if record.exc_info and record.exc_info[0] is not None:
        text = logging.Formatter().formatException(record.exc_info)
    return f"\n{visible_lines(masked(text)).rstrip()}" if text else ""


def set_up() -> None:
    """Log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if os.environ.get(FORMAT_ENV) == "json" else _Plain())
    logging.basicConfig(handlers=[handler], force=True)
    set_levels()
