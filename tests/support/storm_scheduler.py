"""Storm's scheduler, written down from its description as literally as possible.

Slow and long on purpose: what `fulmen.plan` does in its own way is compared with this.

An executor is (first, last), a slot is (node, port).
"""


def integer_divided(total, pieces):
    base = total // pieces
    rest = total % pieces
    result = {base: pieces - rest}
    if rest != 0:
        result[base + 1] = rest
    return result


def interleave_all(columns):
    """The first of each, then the second of each, ..."""
    result = []
    columns = [list(column) for column in columns]
    while any(columns):
        result += [column.pop(0) for column in columns if column]
    return result


def sort_slots(available):
    """One slot of each node in turn; nodes by the number of free slots, most first."""
    nodes = {}
    for node, port in sorted(available):
        nodes.setdefault(node, []).append((node, port))
    by_count = sorted(nodes.values(), key=len, reverse=True)
    return interleave_all(by_count)


class Cluster:
    def __init__(self, slots, assignment):
        self.slots = set(slots)
        self.assignment = dict(assignment)  # executor -> slot

    def available(self):
        return self.slots - set(self.assignment.values())

    def alive(self):
        slots = {}
        for executor, slot in self.assignment.items():
            slots.setdefault(slot, set()).add(executor)
        return slots

    def free(self, slot):
        for executor in [e for e, s in self.assignment.items() if s == slot]:
            del self.assignment[executor]


def bad_slots(alive, num_executors, num_workers):
    if num_workers == 0:
        return set()
    distribution = integer_divided(num_executors, num_workers)
    keep = set()
    for slot in sorted(alive):
        count = len(alive[slot])
        if distribution.get(count, 0) > 0:
            keep.add(slot)
            distribution[count] -= 1
    return set(alive) - keep


def default_schedule(cluster, executors, num_workers):
    used = len(set(cluster.assignment.values()))
    unassigned = set(executors) - set(cluster.assignment)
    if not (used < num_workers or unassigned):
        return
    available = cluster.available()
    alive = cluster.alive()
    alive_executors = {e for assigned in alive.values() for e in assigned}
    can_be_reassigned = {slot for slot in alive if slot in cluster.slots}
    to_use = min(num_workers, len(can_be_reassigned) + len(available))
    bad = set()
    if to_use > len(alive) or alive_executors != set(executors):
        bad = bad_slots(alive, len(executors), to_use)
    for slot in bad:
        cluster.free(slot)
    even_schedule(cluster, executors, num_workers)


def even_schedule(cluster, executors, num_workers):
    available = sort_slots(cluster.available())
    alive = cluster.alive()
    to_use = min(num_workers, len(available) + len(alive))
    reassign_slots = available[: max(0, to_use - len(alive))]
    reassign_executors = sorted(set(executors) - set(cluster.assignment))
    if reassign_slots:
        for number, executor in enumerate(reassign_executors):
            cluster.assignment[executor] = reassign_slots[number % len(reassign_slots)]


def compute_executors(components):
    """Executors of all components; each is name -> (tasks, parallelism)."""
    result = {}
    next_task = 1
    for name in sorted(components):
        num_tasks, parallelism = components[name]
        tasks = list(range(next_task, next_task + num_tasks))
        next_task += num_tasks
        if parallelism == 0:
            continue
        distribution = integer_divided(num_tasks, parallelism)
        for size in sorted(distribution, reverse=True):
            for _ in range(distribution[size]):
                if size > 0:
                    chunk, tasks = tasks[:size], tasks[size:]
                    result[chunk[0], chunk[-1]] = name
    return result
