"""Writes the table of functions of expressions into docs/guide/expressions.md.

.venv/bin/python scripts/function_table.py
"""

from collections.abc import Iterator
from pathlib import Path

from fulmen.expressions.library.functions import ALIASES, BY_NAME, MEANINGS
from fulmen.expressions.source.calls import signature

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "expressions.md"
BEGIN = "<!-- functions: written by scripts/function_table.py -->\n"
END = "<!-- end of functions -->\n"


def table() -> str:
    """All functions: how they are called, what they give."""
    return "\n".join(("| function | result | what it gives |", "|---|---|---|", *_rows())) + "\n"


def _rows() -> Iterator[str]:
    for name, meaning in MEANINGS.items():
        also = [f"`{alias}`" for alias, known in ALIASES.items() if known == name]
        more = f"; also {', '.join(also)}" if also else ""
        some = BY_NAME.get(name, ())
        calls = "<br>".join(f"`{signature(one)}`" for one in some) or f"`{name}(…)`"
        results = "<br>".join(one.result.value for one in some)
        yield f"| {calls} | {results} | {meaning}{more} |"


def with_table(page: str) -> str:
    """The text of the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
