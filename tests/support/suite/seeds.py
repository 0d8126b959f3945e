"""The seed of all that is random in tests: FULMEN_SEED, which tests/conftest.py sets and prints."""

import os
import random
from contextlib import contextmanager

FIRST = int(os.environ.get("FULMEN_SEED") or 0)


def several(number):
    """So many seeds. Each is also the first of others."""
    return range(FIRST, FIRST + number)


@contextmanager
def generator(seed):
    """A generator for one example. If it fails, the error tells how to begin with it."""
    try:
        yield random.Random(seed)
    except BaseException as e:
        e.add_note(f"FULMEN_SEED={seed} begins with this example")
        raise
