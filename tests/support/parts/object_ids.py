"""A spout whose message ids are objects without `==`, which it looks up in its fields."""

from fulmen import Bolt, Spout, TopologyBuilder


class Job:
    """Has no `==`: it is equal to itself alone."""

    def __init__(self, n):
        self.n = n
        self.tries = 0


class Jobs(Spout):
    """Looks its jobs up by themselves, and changes them while they are pending."""

    outputs = ("n",)

    def __init__(self, kind=Job, count=6):
        self.left = [kind(n) for n in reversed(range(count))]
        self.open_jobs = {}
        self.done = []

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.left:
            self.send(self.left.pop())
            return
        for job in self.open_jobs:
            self.open_jobs[job] += 1

    def send(self, job):
        self.open_jobs[job] = 0
        job.tries += 1
        self.collector.emit([job.n], msg_id=job)

    def ack(self, job):
        del self.open_jobs[job]
        self.done.append((job.n, job.tries))

    def fail(self, job, reason):
        del self.open_jobs[job]
        if job.tries == 1:
            self.send(job)
        else:
            self.done.append((job.n, -job.tries))

    def is_exhausted(self):
        return not self.left


class Holds(Bolt):
    """Acks or fails what it has when its last turn comes."""

    def __init__(self, failing=()):
        self.held, self.failing = [], failing

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.held.append(tup)

    def drain(self):
        for tup in self.held:
            if tup[0] in self.failing:
                self.collector.fail(tup, "no")
            else:
                self.collector.ack(tup)
        self.held = []


class Answers(Holds):
    """Acks or fails what it has at once."""

    def execute(self, tup):
        super().execute(tup)
        self.drain()


def object_ids(spout=None, failing=(), bolt=Holds, **spec):
    """The spout, and a bolt that fails some of its jobs."""
    b = TopologyBuilder("objects", **spec)
    b.set_spout("jobs", spout or Jobs())
    b.set_bolt("holds", bolt(failing)).shuffle_grouping("jobs")
    return b
