"""What must come of the events that random components wrote down, found out the plain way."""

from collections import Counter, defaultdict

from support.worlds.random_parts import (
    Ack,
    Emit,
    Fail,
    Receive,
    Reset,
    SpoutAck,
    SpoutFail,
    Tick,
    Told,
    chosen_by_uid,
)

ANY = None


class Tree:
    """One tuple tree, with every copy in it that is not acked."""

    def __init__(self, task, since):
        self.task = task
        self.since = since
        self.open = set()
        self.reasons = []


class Reference:
    """Keeps every tree explicitly. Told the events of one batch after the other."""

    def __init__(self, timeout, acking=True, may_be_told_later=False):
        self.timeout = timeout
        self.may_be_told_later = may_be_told_later
        self.acking = acking
        self.trees = {}
        self.roots = {}  # of each copy
        self.names = {}  # component:stream of each copy
        self.told = ({}, {})  # spouts are told in the next batch: acked uid -> task, failed -> ...
        self.counts = Counter()
        self.ackers = Counter()
        self.ended = Counter()
        self.cases = Counter()  # how often there was what is hard to get right

    def batch(self, events, clock):
        """One batch, committed.

        Raises:
            AssertionError: A spout heard something else than it should have.
        """
        self._compare_told(events)
        copies = defaultdict(list)
        for event in events:
            if isinstance(event, Receive):
                copies[event.copy[0]].append(event.copy)
                self.names[event.copy] = f"{event.source}:{event.stream}"
        for event in events:
            self._apply(event, clock, copies)
        self._end(clock)

    def _apply(self, event, clock, copies):
        match event:
            case Emit():
                self._emit(event, clock, copies[event.uid])
            case Ack(copy):
                self.cases["late acks"] += bool(self.roots[copy] - self.trees.keys())
                for root in self.roots[copy]:
                    if root in self.trees:
                        self.trees[root].open.discard(copy)
                self._count(copy, "acked")
                self.ackers["__ack_ack"] += len(self.roots[copy])
            case Fail(copy, reason):
                self.cases["fails after joins"] += self._is_joined(copy)
                for root in self.roots[copy]:
                    if root in self.trees:
                        self.trees[root].reasons.append(reason)
                self._count(copy, "failed")
                self.ackers["__ack_fail"] += len(self.roots[copy])
            case Reset(copy):
                for root in self.roots[copy]:
                    if root in self.trees:
                        self.trees[root].since = clock
                self.ackers["__ack_reset_timeout"] += len(self.roots[copy])
            case Receive(copy):
                self._count(copy, "executed")
                self.cases["joins received"] += self._is_joined(copy)
                self.cases[f"received from {event.stream}"] += bool(self.roots[copy])
            case Tick(task):
                self.counts[task, "executed", "__system:__tick"] += 1
                self.counts[task, "acked", "__system:__tick"] += 1

    def _emit(self, event, clock, copies):
        self.counts[event.task, "emitted", event.stream] += 1
        self.counts[event.task, "transferred", event.stream] += len(copies)
        if event.tracked and self.acking:
            self.trees[event.uid] = Tree(event.task, clock)
            self.ackers["__ack_init"] += 1
            roots = {event.uid}
        else:
            roots = {root for anchor in event.anchors for root in self.roots[anchor]}
        pending = roots & self.trees.keys()
        self.cases["joins"] += len(pending) > 1 and bool(copies)
        self.cases["joins with many copies"] += len(pending) > 1 and len(copies) > 1
        self.cases["roots with many copies"] += event.tracked and len(copies) > 1
        for copy in copies:
            self.roots[copy] = roots
            for root in pending:
                self.trees[root].open.add(copy)

    def _is_joined(self, copy):
        return len(self.roots[copy] & self.trees.keys()) > 1

    def _count(self, copy, what):
        self.counts[copy[1], what, self.names[copy]] += 1

    def _end(self, clock):
        acked, failed = {}, {}  # by this batch
        for uid, tree in list(self.trees.items()):
            if not tree.open:
                acked[uid] = tree.task
            elif tree.reasons:
                failed[uid] = tree.task, tree.reasons
            elif clock - tree.since > self.timeout:
                failed[uid] = tree.task, ["timed out"]
                self.ended["timed_out"] += 1
            else:
                continue
            del self.trees[uid]
        self.ended["acked"] += len(acked)
        self.ended["failed"] += len(failed)
        for task, what in [(t, "acked") for t in acked.values()] + [
            (t, "failed") for t, _ in failed.values()
        ]:
            self.counts[task, what, ""] += 1
        self.told = self.told[0] | acked, self.told[1] | failed

    def _compare_told(self, events):
        heard_acks = [(e.uid, e.task) for e in events if isinstance(e, SpoutAck)]
        heard_fails = [e for e in events if isinstance(e, SpoutFail)]
        if not self.acking:
            emitted = [(e.uid, e.task) for e in events if isinstance(e, Emit) and e.tracked]
            assert sorted(heard_acks) == sorted(emitted)
            assert heard_fails == []
            return
        acked, failed = self.told
        assert len(set(heard_acks)) == len(heard_acks)
        assert len({e.uid for e in heard_fails}) == len(heard_fails)
        assert set(heard_acks) <= acked.items()
        assert {e.uid: e.task for e in heard_fails}.items() <= {
            uid: task for uid, (task, _) in failed.items()
        }.items()
        for event in heard_fails:
            reasons = failed[event.uid][1]
            assert ANY in reasons or event.reason in reasons
        for uid in [uid for uid, _ in heard_acks]:
            del acked[uid]
        for event in heard_fails:
            del failed[event.uid]
        # after a failed attempt, few are told at a time
        assert self.may_be_told_later or not (acked or failed)

    def component_counts(self, plan):
        """As a report has them: (component, what, of which) -> number."""
        found = Counter()
        for (task, what, name), n in self.counts.items():
            found[plan.component_of(task), what, name] += n
        return found


def check_copies(events, placed, losses=0):
    """Each copy went to exactly the tasks that its grouping allows, once, and in order.

    Args:
        events: What happened.
        placed: Of the topology.
        losses: How many attempts came to nothing: where a process was lost, a shuffle begins anew.
    """
    plan = placed.plan
    emits = {e.uid: e for e in events if isinstance(e, Emit)}
    received = [e for e in events if isinstance(e, Receive)]
    assert len({e.copy for e in received}) == len(received)
    tasks_of = defaultdict(set)
    latest = {}
    for event in received:
        uid, task = event.copy
        emit = emits[uid]
        assert (event.source, event.stream) == (emit.component, emit.stream)
        assert event.source_task in (emit.task, -1)
        assert latest.get((emit.task, task), 0) < uid, "overtaken"
        latest[emit.task, task] = uid
        tasks_of[uid].add(task)
    for event in events:
        if isinstance(event, Told):
            assert event.tasks == tuple(sorted(tasks_of[event.uid]))
    for subscription in placed.subscriptions:
        mine = [
            e
            for e in emits.values()
            if (e.component, e.stream) == (subscription.source, subscription.stream)
        ]
        targets = list(plan.tasks(subscription.target))
        _check_grouping(subscription.grouping.type, mine, targets, tasks_of, plan, losses)
    subscribed = defaultdict(set)
    for s in placed.subscriptions:
        subscribed[s.source, s.stream] |= set(plan.tasks(s.target))
    for uid, tasks in tasks_of.items():
        assert tasks <= subscribed[emits[uid].component, emits[uid].stream]


def _check_grouping(kind, emits, targets, tasks_of, plan, losses):
    sent = defaultdict(Counter)
    of_key = defaultdict(set)
    for emit in emits:
        tasks = tasks_of[emit.uid] & set(targets)
        match kind:
            case "all":
                allowed = set(targets)
            case "direct":
                allowed = {emit.direct} & set(targets)
            case "custom":
                allowed = set(chosen_by_uid(targets, emit.uid))
            case "global":
                allowed = {targets[0]}
            case "fields":
                allowed = {targets[position(text_hash(emit.key)) * len(targets) >> 32]}
            case "local-or-shuffle":
                near = {t for t in targets if plan.worker_of(t) == plan.worker_of(emit.task)}
                allowed = tasks & (near or set(targets))
                assert len(allowed) == 1
            case _:
                allowed = tasks
                assert len(tasks) == 1
        assert tasks == allowed, (kind, emit)
        for task in tasks:
            sent[emit.task][task] += 1
            of_key[emit.task, emit.key].add(task)
    if kind in ("shuffle", "local-or-shuffle"):
        for task, counts in sent.items():
            near = [t for t in targets if plan.worker_of(t) == plan.worker_of(task)]
            among = near if kind == "local-or-shuffle" and near else targets
            numbers = [counts[t] for t in among]
            assert max(numbers) - min(numbers) <= 1 + losses, "uneven"
    if kind == "partial-key":
        assert all(len(tasks) <= 2 for tasks in of_key.values())


def position(*hashes):
    """Where a key is among all keys, of 0 to 2**32 - 1, by the hashes of its values."""
    total = 1
    for hashed in hashes:
        total = finalized(31 * total + finalized(hashed))
    return total


def finalized(word):
    """The end of MurmurHash3 with 32 bits."""
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16)):
        word = ((word & 0xFFFFFFFF) ^ (word & 0xFFFFFFFF) >> shift) * factor
    return word & 0xFFFFFFFF


def text_hash(text):
    """Java's hash of a string."""
    total = 0
    for char in text:
        total = (31 * total + ord(char)) & 0xFFFFFFFF
    return total
