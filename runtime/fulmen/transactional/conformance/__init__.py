"""Tests that every store for committers must pass: also yours.

    import random

    import pytest

    from fulmen.transactional.conformance import CASES

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_map(case, tmp_path):
        case(lambda name, context, rule: MyMap(tmp_path, name, context, rule), random.Random(1))

`make(name, context, rule)` makes a map, whose keys are text and whose values are anything that JSON
can hold. Maps of one name are views of the same rows, as those of several processes are. Each case
begins with names that it has not used before: begin each with an empty store.

A case that fails raises AssertionError.

Uses what is above in `transactional`.
"""

from fulmen.transactional.conformance import attempts, histories, rows
from fulmen.transactional.conformance.checks import Case, at, context_of

CASES: tuple[Case, ...] = (*attempts.CASES, *rows.CASES, *histories.CASES)
"""All of them. Each is independent of the others."""

__all__ = ["CASES", "at", "context_of"]
