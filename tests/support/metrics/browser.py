"""A real browser without a window: what a page looks like to a program after some seconds."""

import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 240
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--enable-logging=stderr", "--dump-dom"),
)
VOID = frozenset({"meta", "link", "br", "img", "input"})


@dataclass
class Element:
    """One of the page, with all that is in it.

    Attributes:
        tag: Its name.
        attributes: As written.
        parts: Texts and elements, in their order.
    """

    tag: str
    attributes: dict = field(default_factory=dict)
    parts: list = field(default_factory=list)

    def __iter__(self):
        yield self
        for part in self.parts:
            if isinstance(part, Element):
                yield from part

    @property
    def text(self):
        return "".join(p if isinstance(p, str) else p.text for p in self.parts).strip()

    def all(self, tag, **attributes):
        wanted = {name.strip("_"): value for name, value in attributes.items()}
        return [
            e for e in self if e.tag == tag and wanted.items() <= e.attributes.items()
        ]  # fmt: skip

    def id(self, name):
        (found,) = (e for e in self if e.attributes.get("id") == name)
        return found

    def rows(self):
        """The text of each cell of each row."""
        return [
            [cell.text for cell in row.parts if isinstance(cell, Element)] for row in self.all("tr")
        ]


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element("document")]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        while self.open.pop().tag != tag:
            pass

    def handle_data(self, data):
        self.open[-1].parts.append(data)


def see(url, folder, millis=3500, options=()):
    """The page after that time, as the browser has it; what it complained about.

    Args:
        url: The page's.
        folder: For the browser's own files.
        millis: The page's own time; it passes as fast as the page's requests are answered.
        options: More of the browser's own.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(
            "the page was not tried: no Chromium on PATH (Debian: apt-get install chromium)"
        )
    ended = subprocess.run(
        [
            path,
            *OPTIONS,
            *options,
            f"--user-data-dir={folder / 'browser'}",
            f"--virtual-time-budget={millis}",
            url,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    reader = _Reader()
    reader.feed(ended.stdout)
    complaints = [line for line in ended.stderr.splitlines() if "CONSOLE" in line]
    return reader.open[0], complaints
