"""Whatever is in a file or behind `--set`, `validate` says that it is right, or what is wrong."""

import json
import os

import pytest

from support import seeds
from support.mutations import mutation

MUTATIONS = int(os.environ.get("FULMEN_MUTATIONS") or 300)
"""How many are tried. Their seeds follow each other from FULMEN_SEED on."""


def tried(seeds, fulmen, folder):
    """What is wrong with the answers, by seed."""
    wrong = {}
    for seed in seeds:
        arguments = mutation(seed, folder)
        result = fulmen(*arguments)
        text = result.output
        if result.exit_code not in (0, 2) or "Traceback" in text or "pydantic" in text:
            wrong[seed] = f"exit code {result.exit_code}: {text[:300]}"
        elif "--json" in arguments:
            content = json.loads(result.stdout)
            if content["valid"] != (result.exit_code == 0):
                wrong[seed] = f"exit code {result.exit_code}, but valid is {content['valid']}"
    return wrong


def test_mutated_files_are_right_or_told_to_be_wrong(fulmen, tmp_path):
    assert tried(range(20), fulmen, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.timeout(300 + MUTATIONS / 10)
def test_many_mutated_files_are_right_or_told_to_be_wrong(fulmen, tmp_path):
    assert tried(seeds.several(MUTATIONS), fulmen, tmp_path) == {}
