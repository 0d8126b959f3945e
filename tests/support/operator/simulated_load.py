"""A topology under a load, as far as the number of its workers depends on it. Seconds in no time.

A source emits, a bolt works. Batches take `OVERHEAD` of the time for what is no work, so that work
never takes all of it. What can't be done at once waits in the source.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fulmen.kube.load import ComponentLoad, Load, StageLoad
from fulmen.topology.reading.field_problems import parse
from fulmen.topology.resource.scaling import executors_on
from fulmen_operator.reconcile.scaling.autoscaling import autoscaled
from support.cli.documents import word_count

SETTLED_SECONDS = 25
"""A driver says nothing of its load for so long after a change."""
OVERHEAD = 0.12
START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday


@dataclass
class Work:
    """What a topology has to do.

    Attributes:
        rate: Seconds since the start -> messages in a second.
        cost: Seconds of a worker for a message.
        tasks: Of the bolt.
        hot: The share of messages that are for one task.
        spout_cost: Seconds of a worker for a message, in the spout.
        partitions: So many tasks of the spout have something to emit.
        spout_tasks: Of the spout.
        service: Messages in a second that a service can take, however many ask it; None: nothing
            else is asked.
        processors: What there is of them for this topology, however many workers it has; None: each
            worker has one.
        noise: By how much a measurement is off, at most.
    """

    rate: object
    cost: float = 0.01
    tasks: int = 16
    hot: float = 0.0
    spout_cost: float = 0.0002
    partitions: int = 16
    spout_tasks: int = 16
    service: float | None = None
    processors: float | None = None
    noise: float = 0.03

    def spout_share(self, workers):
        """The part of the spout's work that is the slowest worker's."""
        return 1 / min(workers, self.partitions)

    def bolt_share(self, workers):
        """The part of the bolt's work that is the slowest worker's."""
        executors = executors_on(workers, 1, self.tasks)
        even = -(-executors // workers) * -(-self.tasks // executors) / self.tasks
        return max(even, self.hot + (1 - self.hot) * even)

    def needed(self, at, capacity):
        """The least number of workers whose batches take at most that share of the time."""
        numbers = range(1, 100)
        return next((n for n in numbers if self.rate(at) * sum(self.seconds(n)) <= capacity), 100)

    def seconds(self, workers):
        """What a message takes of a batch's time for work: spout, bolt."""
        bolt = self.cost * self.bolt_share(workers)
        if self.service is not None:
            bolt = max(bolt, 1 / self.service)
        if self.processors is not None:
            bolt = max(bolt, self.cost / self.processors)
        return self.spout_cost * self.spout_share(workers), bolt

    def run_delay(self, workers):
        """The share of the bolt's time that it has no processor for."""
        if self.processors is None:
            return 0.0
        return 1 - self.cost * self.bolt_share(workers) / self.seconds(workers)[1]


@dataclass
class Simulation:
    """An operator that looks every time the driver has said something.

    Attributes:
        work: What there is to do.
        autoscale: As in the spec.
        workers: As in the spec.
        step: Seconds between two reports.
        status: As the operator has it.
        history: (seconds, workers) of each change.
        reasons: What was thought at each look.
        messages: The same, for people.
        gathered: For so many seconds messages have gathered before the start.
        writes: How often the status was another one.
        lag: Seconds that the oldest message waits.
        worst_lag: The most that it has been.
    """

    work: Work
    autoscale: dict
    workers: int = 1
    seed: int = 0
    step: float = 20.0
    status: object = None
    history: list = field(default_factory=list)
    reasons: list = field(default_factory=list)
    messages: list = field(default_factory=list)
    writes: int = 0
    at: float = 0.0
    gathered: float = 0.0
    lag: float = 0.0
    worst_lag: float = 0.0

    def __post_init__(self):
        self.random = random.Random(self.seed)
        components = {
            "spec.workers": self.workers,
            "spec.autoscale": self.autoscale,
            "spec.spouts.0.numTasks": self.work.spout_tasks,
            "spec.bolts.0.numTasks": self.work.tasks,
        }
        self.spec = parse(word_count(components)).spec
        self.settled = 0.0
        self.waiting = deque()  # (when, messages)
        for ago in range(int(self.gathered), 0, -int(self.step)):
            self.arrive(-ago)

    @property
    def now(self):
        return START + timedelta(seconds=self.at)

    def run(self, seconds):
        """Let so much time pass."""
        end = self.at + seconds
        while self.at < end:
            self.look()
            self.at += self.step
        return self

    def look(self):
        """A driver reports, and the operator decides."""
        number = self.status.workers if self.status else self.workers
        self.arrive(self.at)
        spout, bolt = self.work.seconds(number)
        can = (1 - OVERHEAD) * self.step / (spout + bolt)
        done = self.take(can)
        self.lag = self.at + self.step - self.waiting[0][0] if self.waiting else 0.0
        self.worst_lag = max(self.worst_lag, self.lag)
        load = self.load(number, done / self.step) if self.at >= self.settled else None
        before, self.status = (
            self.status,
            autoscaled(self.spec, self.status, load, number, self.now),
        )
        self.writes += self.status != before
        self.reasons.append(self.status.reason)
        self.messages.append(self.status.message)
        if before is None or self.status.workers != before.workers:
            self.history.append((self.at, self.status.workers))
            self.settled = self.at + SETTLED_SECONDS

    def arrive(self, at):
        """What comes in a step is there at its end."""
        if number := self.work.rate(at) * self.step:
            self.waiting.append((at + self.step, number))

    def take(self, most):
        """Take the oldest messages; how many."""
        left = most
        while self.waiting and left > 0:
            when, number = self.waiting.popleft()
            left -= number
            if left < -1e-9:
                self.waiting.appendleft((when, -left))
        return most - max(left, 0.0)

    def load(self, workers, rate):
        """What a driver says."""
        work = self.work
        spout, bolt = (rate * seconds * self.off() for seconds in work.seconds(workers))
        waits = work.service or work.processors
        total = bolt * min(workers, work.tasks) if waits else rate * work.cost
        total = max(total, bolt)
        busiest = max(total / work.tasks, rate * work.cost * work.hot)
        emitting = min(work.partitions, work.spout_tasks)
        source = ComponentLoad(name="sentences", tasks=work.spout_tasks, active=emitting)
        words = ComponentLoad(
            name="split",
            seconds=round(total, 2),
            busiest=round(busiest, 2),
            tasks=work.tasks,
            active=work.tasks,
        )
        stages = (
            StageLoad(slowest=spout, workers=rate * work.spout_cost, components=(source,)),
            StageLoad(slowest=bolt, workers=total, components=(words,) if total >= 0.01 else ()),
        )
        run_delay = work.run_delay(workers)
        cpu = 0.1 if work.service else 0.9 - run_delay
        return Load(
            workers=workers,
            stages=stages,
            tuples=rate,
            cpu=max(0.0, cpu),
            run_delay=round(run_delay, 1),
            lag=round(self.lag),
            behind="sentences",
        )

    def off(self):
        return 1 + self.random.uniform(-self.work.noise, self.work.noise)
