"""Storm's DefaultScheduler and EvenScheduler, where the slots are the topology's own workers.

A pod is a node: worker w is slot `w % slots` of pod `w // slots`. A worker is left alone if an even
division has a place for as many executors as it has. All others are emptied, and what is unassigned
then is dealt to the empty ones, one executor to each in turn, and one pod after the other: so few
executors are spread over as many pods as there are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from fulmen.plan.model import Executor
from fulmen.plan.tasks import integer_divided

Assignment = dict[Executor, int]


def schedule(
    executors: Sequence[Executor],
    slots: Sequence[int],
    existing: Mapping[Executor, int],
    slots_of_pod: int,
) -> Assignment:
    """The worker of each executor. Where executors run now may be out of date, or empty."""
    alive = {e: existing[e] for e in executors if existing.get(e) in slots}
    used = set(alive.values())
    if len(slots) > len(used) or len(alive) < len(executors):
        kept = _good_slots(alive, integer_divided(len(executors), len(slots)))
        alive = {e: worker for e, worker in alive.items() if worker in kept}
    return alive | _deal(executors, slots, alive, slots_of_pod)


def _good_slots(alive: Assignment, distribution: dict[int, int]) -> set[int]:
    """The workers that have a number of executors which the even division still has a place for."""
    good, left = set(), dict(distribution)
    for worker, size in sorted(Counter(alive.values()).items()):
        if left.get(size, 0) > 0:
            good.add(worker)
            left[size] -= 1
    return good


def _deal(
    executors: Sequence[Executor],
    slots: Sequence[int],
    alive: Assignment,
    slots_of_pod: int,
) -> Assignment:
    used = set(alive.values())
    free = _interleaved((slot for slot in sorted(slots) if slot not in used), slots_of_pod)
    waiting = [e for e in executors if e not in alive]
    return {executor: free[i % len(free)] for i, executor in enumerate(waiting)}


def _interleaved(free: Iterable[int], slots_of_pod: int) -> list[int]:
    """Take one slot of each pod in turn. The pods with the most free slots come first."""
    pods: dict[int, list[int]] = {}
    for slot in free:
        pods.setdefault(slot // slots_of_pod, []).append(slot)
    by_count = sorted(pods.values(), key=len, reverse=True)
    return [slot for row in zip_longest(*by_count) for slot in row if slot is not None]
