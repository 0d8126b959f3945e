"""Components of each kind that write down what they are told of their `config`."""

from pydantic import BaseModel

from fulmen.api import (
    ArrowBolt,
    BatchBolt,
    Bolt,
    CustomStreamGrouping,
    Spout,
    TransactionalSpout,
)

TOLD = []
"""(which, the options, `conf`, the context's `config`) of each."""


class Options(BaseModel):
    secret: str


def tell(which, context, conf=None):
    TOLD.append((which, context.options.secret, conf and conf["secret"], context.config["all"]))


class Once(Spout):
    config_model = Options
    outputs = ("n",)

    def open(self, conf, context, collector):
        self.left, self.collector = 1, collector
        tell(type(self).__name__, context, conf)

    def next_tuple(self):
        if self.left:
            self.left = 0
            self.collector.emit([1], msg_id=1)

    def is_exhausted(self):
        return not self.left


class Pinned(Once):
    pinned = True


class Rows(Bolt):
    config_model = Options
    outputs = ("n",)

    def prepare(self, conf, context, collector):
        self.collector = collector
        tell("Rows", context, conf)

    def execute(self, tup):
        self.collector.emit([1], anchors=[tup])
        self.collector.ack(tup)


class First(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        self.tasks = target_tasks
        tell("First", context)

    def choose_tasks(self, task_id, values):
        return self.tasks[:1]


class Columns(ArrowBolt):
    config_model = Options

    def prepare(self, conf, context):
        tell("Columns", context, conf)

    def execute(self, batch, collector):
        pass


class Source(TransactionalSpout):
    config_model = Options
    outputs = ("tx", "n")

    def get_coordinator(self, conf, context):
        tell("Coordinator", context, conf)
        return Coordinator()

    def get_emitter(self, conf, context):
        tell("Emitter", context, conf)
        return Emitter()


class Coordinator(TransactionalSpout.Coordinator):
    opened = 0

    def is_ready(self):
        return self.opened < 1

    def is_exhausted(self):
        return not self.is_ready()

    def initialize_transaction(self, txid, previous):
        self.opened += 1
        return txid


class Emitter(TransactionalSpout.Emitter):
    def emit_batch(self, attempt, metadata, collector):
        collector.emit([attempt, metadata])


class Finisher(BatchBolt):
    config_model = Options

    def prepare(self, conf, context, collector, attempt):
        tell("Finisher", context, conf)

    def execute(self, tup):
        pass

    def finish_batch(self):
        pass
