"""Components that do with a secret of their `config` what an author may do."""

import logging

from pydantic import BaseModel, SecretStr

from fulmen.api import BasicBolt, Bolt, FailedException, ServiceUnavailable

log = logging.getLogger("shop")


class Options(BaseModel):
    dsn: str = ""
    password: SecretStr = SecretStr("")
    nested: dict[str, list[str]] = {}


class Keeper(BasicBolt):
    """Keeps a secret in every way that there is."""

    config_model = Options
    outputs = ("word",)

    def __init__(self):
        self.seen = []

    def prepare(self, conf, context):
        self.given, self.context, self.options = conf, context, context.options
        self.dsn = conf["dsn"]
        self.url = f"{conf['dsn']}/more"
        self.from_model = context.options.dsn
        self.password = context.options.password
        self.settings = {"dsn": conf["dsn"], "n": 0}
        self.made = {"url": f"{context.options.dsn}!"}
        self.counts = {f"{conf['topic']}": 0}
        self.state["dsn"] = conf["dsn"]
        self.number = 0

    def execute(self, tup, collector):
        self.number += 1
        self.settings["n"] += 1
        self.counts[next(iter(self.counts))] += 1
        self.state[self.given["topic"]] = self.number
        if self.number == 1:
            self.seen.append(f"{self.given['topic']}")
        collector.emit([self.given["topic"]])


class Hostile:
    """Tells a secret when it is pickled."""

    def __init__(self, secret):
        self.secret = secret

    def __reduce__(self):
        raise ValueError(f"no, {self.secret}")


class Teller(Bolt):
    """Tells a secret in every way that there is."""

    def prepare(self, conf, context, collector):
        self.conf, self.collector = conf, collector

    def execute(self, tup):
        dsn = self.conf["dsn"]
        match tup[0]:
            case "raise":
                raise RuntimeError(f"no connection to {dsn!r}")
            case "fail":
                self.collector.fail(tup, f"{dsn} is away")
            case "give-up":
                raise FailedException(f"{dsn} is away")
            case "report":
                self.collector.report_error(ConnectionError(dsn))
                self.collector.report_error(f"{dsn} again")
            case "log":
                log.error("no connection to %s", dsn)
                try:
                    raise ValueError(dsn)
                except ValueError:
                    log.exception("this")
            case "part":
                raise RuntimeError("password 'hunter/2' is wrong: hunter%2F2, after " + "x" * 5000)
            case "long":
                raise RuntimeError(f"{self.conf['long']} " * 500)
            case "hostile":
                self.hostile = Hostile(dsn)
            case "emit":
                self.collector.emit([dsn], "nowhere")
        self.collector.ack(tup)


class Away(BasicBolt):
    """Connects to what is away when it is first asked."""

    tries = 0

    def prepare(self, conf, context):
        self.dsn = conf["dsn"]

    def execute(self, tup, collector):
        Away.tries += 1
        if Away.tries == 1:
            raise ServiceUnavailable(f"a shop at {self.dsn}", "no answer")


class Opener(BasicBolt):
    """Can't open what its config says."""

    def prepare(self, conf, context):
        raise RuntimeError(f"no connection to {conf['dsn']}")

    def execute(self, tup, collector):
        pass
