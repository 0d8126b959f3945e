"""Writes the table of all reasons of conditions into docs/conditions.md: what `fulmen why` says.

.venv/bin/python scripts/reason_table.py
"""

from pathlib import Path

from fulmen.cli.display.why.explanations import EXPLANATIONS, Explanation

PAGE = Path(__file__).parents[1] / "docs" / "conditions.md"
BEGIN = "<!-- reasons: written by scripts/reason_table.py -->\n"
END = "<!-- end of reasons -->\n"


def with_table(page: str) -> str:
    """The text of the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = ["| reason | of | what it means | what to do |", "|---|---|---|---|"]
    rows += [_row(explanation) for explanation in EXPLANATIONS]
    table = "\n".join(rows)
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"


def _row(row: Explanation) -> str:
    reasons = " ".join(f"`{reason}`" for reason in row.reasons)
    names = f"{reasons} and others" if row.and_others else reasons
    cells = (names, ", ".join(row.of), row.means, row.cure)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
