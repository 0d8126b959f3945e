"""The groups of scripts/mutants.py name files that are there."""

import runpy

import pytest

from support.docs.pages import ROOT

GROUPS = runpy.run_path(str(ROOT / "scripts" / "mutants.py"))["GROUPS"]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_of_mutants_has_its_modules_and_tests(group):
    modules, tests = GROUPS[group]
    for module in modules:
        assert [*(ROOT / "runtime").glob(module), *(ROOT / "operator").glob(module)], module
    for test in tests:
        assert (ROOT / "tests" / "unit" / test).exists(), test
