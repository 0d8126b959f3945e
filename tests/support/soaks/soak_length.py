"""How long random kills on a cluster go on: FULMEN_ROUNDS, or FULMEN_SECONDS for each shape."""

import itertools
import os
import time

SECONDS = float(os.environ.get("FULMEN_SECONDS") or 0)
LEAST_ROUNDS = 3
"""One for each kind of thing that is killed in every shape."""
ROUNDS = max(LEAST_ROUNDS, int(os.environ.get("FULMEN_ROUNDS") or 0))


def rounds(seconds=SECONDS, number=ROUNDS, clock=time.monotonic):
    """Numbers of rounds: until so many seconds have passed, or if there are none, so many."""
    began = clock()
    for done in itertools.count():
        if (clock() - began >= seconds) if seconds else (done >= number):
            return
        yield done


def most_seconds(seconds_of_round):
    """How long all rounds may take, if each takes so many seconds at most."""
    return SECONDS + seconds_of_round if SECONDS else ROUNDS * seconds_of_round
