"""Drivers of topologies on real Spark, several of which share its JVMs, and what they committed."""

import itertools
import pickle
from dataclasses import replace

from fulmen.checkpoint import Store, load_many, read_newest
from fulmen.engine.acking.acker_task import restore
from fulmen.engine.driver.driver import Driver, Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.deliveries import DELIVERIES
from fulmen.engine.spark.job_runner import PATIENCE_SECONDS
from fulmen.engine.spark.jobs import LocalSparkJobs
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import RESULTS_FAILED
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.topology.resource.spec import ACKER
from fulmen.topology.validation.check import check
from support.runs.spark_runs import TESTS, remove_outputs

_numbers = itertools.count()


def patient(settings):
    """For a machine that is busy with other things."""
    return replace(settings, start_timeout_seconds=400)


class SharedSpark(LocalSparkJobs):
    """Spark for one driver after another: it does not end when one of them is closed."""

    def __init__(self, workers, folder, conf=(), slots=1):
        super().__init__(workers, dict(conf), TESTS, folder / "spark.log")
        self._settings = replace(patient(self._settings), slots=slots)
        self.folder = folder
        self.patience_seconds = PATIENCE_SECONDS

    @property
    def session(self):
        return self._session

    def new_checkpoint(self):
        return (self.folder / f"checkpoint-{next(_numbers)}").as_uri()

    def start(self, placed):
        self.wanted = range(placed.plan.workers)  # maybe fewer than there are
        return super().start(placed)

    def recover(self):
        alive = self._jobs.recover(self.patience_seconds)
        return [worker for worker in alive if worker in self.wanted]

    def alive(self):
        return [worker for worker in super().alive() if worker in self.wanted]

    def close(self):
        pass

    def end(self):
        if self._session is not None:
            remove_outputs(self._session)
        super().close()


class RecordingObserver(Silent):
    """Writes down what happens. `on_batch` is called after each batch that counted."""

    def __init__(self, on_batch=None):
        self.failures, self.notes, self.errors, self.restored = [], [], [], []
        self.processes = {}
        self.on_batch = on_batch

    def batch(self, totals, done):
        for summary in done.summaries:
            self.restored += summary.restored
            self.processes[summary.process[0]] = summary.process[1]
        if self.on_batch is not None:
            self.on_batch(totals, done)

    def error(self, error):
        self.errors.append(error)

    def attempt_failed(self, number, reason):
        self.failures.append((number, reason))

    def note(self, text):
        self.notes.append(text)


class Interrupts(RecordingObserver):
    """Somebody presses Ctrl-C when a call is said to run for long."""

    def __init__(self):
        super().__init__()
        self.stop = Stop()

    def note(self, text):
        super().note(text)
        if "next_tuple runs since" in text:
            self.stop.drain = self.stop.interrupted = True


def make_driver(builder, jobs, checkpoint, observer):
    """A driver, not yet started. The components are in tests/support."""
    return Driver(check(builder.build()).runnable(TESTS), jobs, checkpoint, observer)


class Committed:
    """What the newest commit in a checkpoint says."""

    def __init__(self, checkpoint):
        store = Store.open(checkpoint)
        self.manifest = read_newest(store)
        self._found = load_many(store, self.manifest, self.manifest.tasks)

    def _tasks(self, component):
        return {
            int(key.split("/")[1]): journals
            for key, journals in sorted(self._found.items())
            if key.split("/")[0] == component
        }

    def state(self, component):
        """`self.state` of each task, by its number within the component."""
        return {
            task: dict(KeyedState.restore(journals))
            for task, journals in self._tasks(component).items()
        }

    def fields(self, component):
        """The durable fields of each task."""
        return {
            task: pickle.loads(journals["fields"][-1])[0]
            for task, journals in self._tasks(component).items()
            if journals.get("fields")
        }

    def resting_results(self, component):
        """How many results of a component have failed and come again after a pause."""
        tasks = self._tasks(component).values()
        return sum(FailedMessages.restore(t, journal=RESULTS_FAILED).resting for t in tasks)

    def pending(self):
        """(trees that ackers track, messages that spouts wait for, deliveries still to be made)"""
        trees = [restore(journals.get("trees", ())) for journals in self._tasks(ACKER).values()]
        messages = [PendingMessages.restore(s.get("pending", ())) for s in self._found.values()]
        return (
            sum(map(len, trees)),
            sum(m.count for m in messages),
            DELIVERIES in self.manifest.transient,
        )


NOTHING_PENDING = (0, 0, False)
