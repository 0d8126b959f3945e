"""The table of rights in docs/operations.md is what the chart and the operator give."""

import pytest

from support.docs.scripts import script
from support.operator.charts import HELM

TABLE = script("rights_table")


@pytest.mark.skipif(HELM is None, reason="needs helm")
def test_the_table_of_rights_is_that_of_the_roles():
    page = TABLE.PAGE.read_text(encoding="utf-8")
    assert TABLE.with_table(page) == page, (
        "change the chart's _helpers.tpl or the operator's manifests/rights.py, and run"
        " scripts/rights_table.py"
    )


def test_rules_about_the_same_are_one_row():
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch", "get"]},
        {"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["patch"]},
    ]
    found = TABLE.rights_of(rules)
    assert found == {
        ("pods", ""): {"get", "list", "watch"},
        ("pods.apps", ""): {"list"},
        ("pods", "a"): {"patch"},
    }
    table = list(TABLE._table({who: found if who == "driver" else {} for who in TABLE.WHO}))
    assert table[2:] == [
        "| `pods` | no | no | get, list, watch | no | no | no |",
        "| `pods` named `a` | no | no | patch | no | no | no |",
        "| `pods.apps` | no | no | list | no | no | no |",
    ]
