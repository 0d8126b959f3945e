"""Every reason of a condition is explained in docs/operations.md."""

import ast
import re
from typing import get_args

import pytest

from fulmen.kube.contract import EndReason
from fulmen.topology.resource.status import State
from support.pages import ROOT
from support.reasons import explained

TABLE = explained()
NEVER_A_REASON = {"Drained", "Finished", "Valid", "Terminated", "Failed"}
MODULES = (
    "acceptance/verdict",
    "controller/loop",
    "reconcile/conditions",
    "reconcile/next_step",
    "reconcile/rollout",
    "reconcile/status",
)
CALLS = {"Refused": 0, "Refusal": 0, "Verdict": 2, "_stay": 2, "_drain": 2, "Step": 1}
"""Calls that are given a reason, and as which argument."""


def reasons_in(module):
    """The reasons that a module names: constants where a reason is expected."""
    text = (ROOT / "operator" / "fulmen_operator" / f"{module}.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id=name), args=args) if name in CALLS:
                found = args[CALLS[name] :][:1]
            case ast.keyword(arg="reason", value=value):
                found = [value]
            case ast.Assign(targets=[ast.Name(id="reason")], value=ast.IfExp(_, one, other)):
                found = [one, other]
            case ast.Return(value=ast.Tuple(elts=[ast.Constant(), second, *_])):
                found = [second]
            case ast.Tuple(elts=[ast.Constant(value=str()) as first, ast.JoinedStr()]):
                found = [first]
            case _:
                found = []
        for value in found:
            if isinstance(value, ast.Constant) and re.fullmatch(r"[A-Z]\w+", str(value.value)):
                yield value.value


def test_reasons_are_found():
    found = {reason for module in MODULES for reason in reasons_in(module)}
    expected = {"CodeTooBig", "PodRefused", "Checking", "Applying", "StartTimeout", "Suspended"}
    assert expected | {"PreflightFailed", "PreflightTimeout", "DriverEnding", "Paused"} <= found


@pytest.mark.parametrize("module", MODULES)
def test_every_reason_is_explained(module):
    assert set(reasons_in(module)) - TABLE - NEVER_A_REASON - {"True", "False"} == set()


def test_every_end_and_state_is_explained():
    assert {*get_args(EndReason), *get_args(State)} - TABLE - NEVER_A_REASON == set()
