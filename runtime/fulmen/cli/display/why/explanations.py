"""The meaning and the cure of each reason of a condition: the table in `reasons.md`.

scripts/reason_table.py puts it into docs/conditions.md. Texts are Markdown, with links as in that
page; `plain` makes them fit for a terminal.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, NamedTuple

PAGE: Final = "conditions.md"
TABLE: Final = (files("fulmen.cli.display.why") / "reasons.md").read_text(encoding="utf-8")
_LINK: Final = re.compile(r"\[([^]]*)\]\(([^)]*)\)")


class Explanation(NamedTuple):
    """The meaning of some reasons, of some conditions; without a cure if nothing is to be done."""

    reasons: Sequence[str]
    of: Sequence[str]
    means: str
    cure: str


def _read(row: str) -> Explanation:
    reasons, of, means, cure = (cell.strip() for cell in row.strip("|").split("|"))
    return Explanation(re.findall("`(.*?)`", reasons), of.split(", "), means, cure)


EXPLANATIONS: Final = tuple(_read(row) for row in TABLE.splitlines()[2:])


def explanation_of(reason: str) -> Explanation | None:
    """The row of a reason; None: it is not in the table, such as another one of Kubernetes'."""
    return next((row for row in EXPLANATIONS if reason in row.reasons), None)


def plain(markdown: str) -> str:
    """A text without the marks of Markdown; of a link, its words and the page that it leads to."""

    def shown(link: re.Match[str]) -> str:
        words, target = link.groups()
        page, hash_, anchor = target.partition("#")
        return f"{words} (docs/{page or PAGE}{hash_}{anchor})"

    return _LINK.sub(shown, markdown)
