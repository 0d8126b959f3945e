"""Which cells of a matrix of tests run this time. All of them: `make test-all`."""

import math
import random
import subprocess
from datetime import date


def seed_of_the_day(repository):
    """A seed that all commits of a day have: a failure comes again until it is mended.

    Args:
        repository: The folder of a clone. Without commits the seed is another one each time.
    """
    log = ["git", "-C", str(repository), "log", "-1", "--format=%cd", "--date=format:%Y-%m-%d"]
    told = subprocess.run(log, capture_output=True, text=True, check=False)
    if told.returncode != 0 or not told.stdout.strip():
        return random.SystemRandom().randrange(2**32)
    return random.Random(date.fromisoformat(told.stdout.strip()).toordinal()).randrange(2**32)


def drawn(cells, share, seed):
    """A share of the cells, at least one, each as likely as the others.

    Args:
        cells: Their names, in any order.
        share: Above 0, at most 1. With a half, a cell is left out of ten runs in a row once in a
            thousand times.
        seed: Another one draws others.
    """
    count = max(1, math.ceil(share * len(cells)))
    return set(random.Random(str(seed)).sample(sorted(cells), count))
