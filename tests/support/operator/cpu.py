"""CPU time that a test takes on purpose."""

from time import thread_time


def burn(seconds):
    """Compute for so long, as this thread's own clock counts."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass
