"""Storm's DefaultScheduler and EvenScheduler, where the slots are the topology's own workers.

Each worker is a node with one slot, so interleaving the nodes' slots gives the workers by ascending
number. A worker is left alone if an even division has a place for as many executors as it has. All
others are emptied, and what is unassigned then is dealt to the empty ones, one executor to each in
turn.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from fulmen.plan.model import Executor
from fulmen.plan.tasks import integer_divided

Assignment = dict[Executor, int]


def schedule(
    executors: Sequence[Executor],
    slots: Sequence[int],
    wanted: int,
    existing: Mapping[Executor, int],
) -> Assignment:
    """The worker of each executor.

    Args:
        executors: All that are to be placed.
        slots: The workers that there are.
        wanted: How many workers the topology asks for.
        existing: Where executors run now. What is no longer there or wanted is ignored.
    """
    alive = {e: existing[e] for e in executors if existing.get(e) in slots}
    if not _needs_scheduling(alive, executors, wanted):
        return alive
    used = sorted(set(alive.values()))
    to_use = min(wanted, len(slots))
    if to_use > len(used) or len(alive) < len(executors):
        kept = _good_slots(alive, integer_divided(len(executors), to_use))
        alive = {e: worker for e, worker in alive.items() if worker in kept}
    return alive | _deal(executors, slots, wanted, alive)


def _needs_scheduling(alive: Assignment, executors: Sequence[Executor], wanted: int) -> bool:
    return len(set(alive.values())) < wanted or len(alive) < len(executors)


def _good_slots(alive: Assignment, distribution: dict[int, int]) -> set[int]:
    """The workers that have a number of executors which the even division still has a place for."""
    good, left = set(), dict(distribution)
    for worker, size in sorted(Counter(alive.values()).items()):
        if left.get(size, 0) > 0:
            good.add(worker)
            left[size] -= 1
    return good


def _deal(
    executors: Sequence[Executor], slots: Sequence[int], wanted: int, alive: Assignment
) -> Assignment:
    used = set(alive.values())
    free = [slot for slot in sorted(slots) if slot not in used]
    chosen = free[: min(wanted, len(slots)) - len(used)]
    waiting = sorted((e for e in executors if e not in alive), key=lambda e: (e.first, e.last))
    return {executor: chosen[i % len(chosen)] for i, executor in enumerate(waiting)}
