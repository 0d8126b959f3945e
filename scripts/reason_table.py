"""Writes the table of all reasons of conditions into docs/conditions.md: what `fulmen why` reads.

.venv/bin/python scripts/reason_table.py
"""

from pathlib import Path

from fulmen.cli.display.why.explanations import TABLE

PAGE = Path(__file__).parents[1] / "docs" / "conditions.md"
BEGIN = "<!-- reasons: written by scripts/reason_table.py -->\n"
END = "<!-- end of reasons -->\n"


def with_table(page: str) -> str:
    """The text of the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{TABLE}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
