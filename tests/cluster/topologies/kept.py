"""Words that are counted, by steps that can change; a total, which is the task's own."""

from fulmen import BasicBolt


class Split(BasicBolt):
    """Can't split every sentence."""

    outputs = ("word",)

    def execute(self, tup, collector):
        words = tup["sentence"].split()
        if words[1:] == ["w5", "w5"]:
            raise ValueError("w5 comes twice")
        for word in words:
            collector.emit([word])


class Count(BasicBolt):
    transient = ("step",)

    def prepare(self, conf, context):
        self.step = conf["step"]

    def execute(self, tup, collector):
        word = tup["word"]
        self.state[word] = self.state.get(word, 0) + self.step


class Total(BasicBolt):
    def execute(self, tup, collector):
        self.state["total"] = self.state.get("total", 0) + 1
