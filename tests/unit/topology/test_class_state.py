"""What a component keeps in its class is told, as it is lost with the process."""
# ruff: noqa: RUF012 (these are the mistakes)

from collections import Counter, deque
from heapq import heappush

import pytest

from fulmen import BasicBolt
from fulmen.topology.code.class_state import kept_in_class
from fulmen.topology.validation.check import check
from support.cli.documents import word_count

ME = f"{__name__}."


class Base(BasicBolt):
    def execute(self, tup, collector):
        self.count(tup[0])

    def count(self, word):
        pass


class ByIndex(Base):
    counts = Counter()

    def count(self, word):
        self.counts[word] += 1


class ByMethod(Base):
    last = deque(maxlen=5)

    def count(self, word):
        self.last.append(word)


class ByOtherName(Base):
    seen = set()

    def count(self, word):
        seen = self.seen
        seen.add(word)


class OfItsClass(Base):
    rows = []

    def count(self, word):
        type(self).rows += [word]


class Number(Base):
    total = 0

    def count(self, word):
        Number.total += 1


class ByHeap(Base):
    heap = []

    def count(self, word):
        heappush(self.heap, word)


class Deep(Base):
    lists = {"a": []}

    def count(self, word):
        self.lists["a"].append(word)
        del self.lists["a"][0]


class UpperCase(Base):
    COUNTS = {}

    def count(self, word):
        self.COUNTS[word] = 1


class Derived(ByIndex):
    def count(self, word):
        super().count(word)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (ByIndex, "ByIndex.counts"),
        (ByMethod, "ByMethod.last"),
        (ByOtherName, "ByOtherName.seen"),
        (OfItsClass, "OfItsClass.rows"),
        (Number, "Number.total"),
        (ByHeap, "ByHeap.heap"),
        (Deep, "Deep.lists"),
        (UpperCase, "UpperCase.COUNTS"),
        (Derived, "ByIndex.counts"),
    ],
)
def test_what_methods_change_in_their_class_is_told(cls, name):
    assert [message.split()[0] for message, _ in kept_in_class(cls())] == [ME + name]


def test_what_is_kept_in_a_class_is_a_warning():
    (problem,) = check(word_count({"spec.bolts.1.class": f"{ME}ByIndex"})).problems
    assert problem.severity == "warning"
    assert str(problem) == (
        f"spec.bolts[1].class: bolt 'count': {ME}ByIndex.counts belongs to the class, and methods"
        " change it: all tasks of a process share it, and it is lost with the process. Set"
        " self.counts in __init__, or use self.state. If it may be lost, name it in transient."
    )


# ---- what is none --------------------------------------------------------------------------------


class Table(Base):
    prices = {"a": 1}
    columns = []

    def count(self, word):
        return [self.prices[word], *self.columns]


class OfTheInstance(Base):
    counts = {}
    rows = []

    def __init__(self):
        self.counts = {}

    def prepare(self, conf, context):
        self._reset()

    def _reset(self):
        self.rows = []

    def count(self, word):
        self.counts[word] = 1
        self.rows.append(word)


class MadeByPrepare(Base):
    models = {}
    made = 0

    def prepare(self, conf, context):
        self._load("a")
        MadeByPrepare.made += 1

    def _load(self, path):
        self.models[path] = len(path)

    def cleanup(self):
        self.models.clear()


class Transient(Base):
    transient = ["cache"]
    cache = {}

    def count(self, word):
        self.cache[word] = 1


class Scalar(Base):
    total = 0

    def count(self, word):
        self.total += 1


class Overridden(ByIndex):
    def count(self, word):
        pass


class OtherObjects(Base):
    counts = {}

    @staticmethod
    def other(it):
        it.counts["a"] = 1

    def count(self, word):
        counts = {}
        counts[word] = 1
        word.counts["a"] = 1


@pytest.mark.parametrize(
    "cls", [Table, OfTheInstance, MadeByPrepare, Transient, Scalar, Overridden, OtherObjects]
)
def test_what_is_right_in_a_class_is_not_told(cls):
    assert list(kept_in_class(cls())) == []
