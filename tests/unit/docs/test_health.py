"""What Argo CD is told of topologies: the page's Lua, run on what conditions can say."""

import lupa
import pytest

from support.docs.pages import blocks

[HEALTH] = blocks("docs/conditions.md", "lua")


def health(generation=3, observed=3, runs=3, **conditions):
    """What the page's function says of a topology with these conditions: type -> status, reason."""
    lua = lupa.LuaRuntime()
    found = [
        {"type": type_, "status": status, "reason": reason, "message": f"{type_} is {status}"}
        for type_, (status, reason) in conditions.items()
    ]
    for condition in found:
        condition["observedGeneration"] = runs if condition["type"] == "Ready" else generation
    topology = {"metadata": {"generation": generation}}
    if observed is not None:
        topology["status"] = {"observedGeneration": observed, "conditions": found}
    given = lua.table_from(topology, recursive=True)
    told = lua.eval(f"function(obj) {HEALTH.text} end")(given)
    return told["status"], told["message"]


WORKS = {"Ready": ("True", "Active"), "Stalled": ("False", "Active")}
STARTS = {"Ready": ("False", "Starting"), "Stalled": ("False", "Starting")}
FAILED = {"Ready": ("False", "Error"), "Stalled": ("True", "Error")}


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        pytest.param({"observed": None}, "Progressing", "not looked at it yet", id="new"),
        pytest.param({"observed": 2, **WORKS}, "Progressing", "not looked at it", id="changed"),
        pytest.param({"runs": 2, **WORKS}, "Progressing", "an older version", id="is-tried"),
        pytest.param({}, "Progressing", "an older version", id="no-conditions"),
        pytest.param(STARTS, "Progressing", "Ready is False", id="starts"),
        pytest.param(WORKS, "Healthy", "Ready is True", id="works"),
        pytest.param(
            {**WORKS, "Ready": ("True", "Suspended")}, "Suspended", "Ready is True", id="suspended"
        ),
        pytest.param(FAILED, "Degraded", "Stalled is True", id="failed"),
        pytest.param(
            {**WORKS, "SpecAccepted": ("False", "RolledBack")},
            "Degraded",
            "SpecAccepted is False",
            id="an-older-version-runs",
        ),
    ],
)
def test_argo_cd_sees_what_the_conditions_say(given, status, message):
    said, why = health(**given)
    assert (said, message in why) == (status, True)
