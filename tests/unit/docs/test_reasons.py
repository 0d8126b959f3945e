"""The table of reasons in docs/conditions.md is what `fulmen why` says of them."""

from fulmen.topology.resource.spec.autoscale import LIMITED, ScalingReason
from support.docs.pages import ROOT
from support.docs.scripts import script

TABLE = script("reason_table")


def test_the_table_of_reasons_is_that_of_the_command():
    page = TABLE.PAGE.read_text(encoding="utf-8")
    assert TABLE.with_table(page) == page, (
        "change runtime/fulmen/cli/display/why/reasons.md, and run scripts/reason_table.py"
    )


def test_each_reason_of_a_number_of_workers_is_explained():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("## Let it scale")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    named = {name.strip("| `") for first, *_ in rows for name in first.split(", ")}
    assert named == {*ScalingReason}
    cures = {first.strip("| `"): cure for first, _, cure in rows}
    assert all(cures[reason] != "nothing |" for reason in LIMITED)
