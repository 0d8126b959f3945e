import enum
import math
import pickle
import random
import threading
import uuid
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.equal_values import equal_hash
from fulmen.engine.keyed.hashing.polynomials import MAX_UNITS, polynomial, polynomials, power
from fulmen.engine.keyed.hashing.positions import positions, task_index
from fulmen.engine.keyed.hashing.value_hash import _Strings, list_hash, string_hashes, value_hash
from fulmen.errors import GroupingError

# value, its hash, the position of the key of it alone, and its task among 2, 3 and 12
KEPT = [
    (None, 0, 1257683291, [0, 0, 3]),
    (True, 1, 193999046, [0, 0, 0]),
    (0, 0, 1257683291, [0, 0, 3]),
    (-1, -1640531535, 449394798, [0, 0, 1]),
    (1234567890123456789, 1393855905, 1765659610, [0, 1, 4]),
    (-(2**63), -1640531533, 3898119412, [1, 2, 10]),
    (2**70, 512, 3905132903, [1, 2, 10]),
    (0.5, 268435456, 437167935, [0, 0, 1]),
    (-1.5e300, -857863180, 546073997, [0, 0, 1]),
    (math.inf, 314159, 428916234, [0, 0, 1]),
    (math.nan, 32760, 3313955602, [1, 2, 9]),
    (Decimal("0.10"), 1391905216, 2902115566, [1, 2, 8]),
    ("", 0, 1257683291, [0, 0, 3]),
    ("nathan", -1052620332, 2814620992, [1, 1, 7]),
    ("é😀", 1996812, 2733022178, [1, 1, 7]),
    (b"\xff\x00", 930, 4221221358, [1, 2, 11]),
    (("a", 1), -1463487563, 4123030318, [1, 2, 11]),
    ([None, [2.5]], 447461344, 2674824871, [1, 1, 7]),
    (date(2024, 2, 29), -1656402217, 2535305669, [1, 1, 7]),
    (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), -1544712961, 366328464, [0, 0, 1]),
]


@pytest.mark.parametrize(("value", "hashed", "position", "tasks"), KEPT)
def test_a_key_stays_where_it_is_in_all_versions(value, hashed, position, tasks):
    assert equal_hash(value) == hashed
    for rows in (1, 100):
        places = positions([column_hash([value] * rows)])
        assert places.tolist() == [position] * rows
        assert [task_index(places, n).tolist() for n in (2, 3, 12)] == [[t] * rows for t in tasks]


# Keys that look alike in their bits, or in their sums.
ALIKE = {
    "steps": [[k * 1_000] for k in range(20_000)],
    "whole floats": [[float(k)] for k in range(20_000)],
    "fractions": [[k / 4096] for k in range(20_000)],
    "packed": [[a << 32 | b] for a in range(150) for b in range(150)],
    "days": [[date(2020, 1, 1) + timedelta(d), k] for d in range(200) for k in range(100)],
    "days in a tuple": [
        [(date(2020, 1, 1) + timedelta(d), k)] for d in range(200) for k in range(100)
    ],
    "users": [[f"user-{k}"] for k in range(20_000)],
}


@pytest.mark.parametrize("alike", ALIKE)
def test_keys_that_are_alike_are_spread_evenly(alike):
    keys = ALIKE[alike]
    places = positions([column_hash(list(column)) for column in zip(*keys, strict=True)])
    assert len(set(places.tolist())) > 0.999 * len(keys)
    for n in (2, 4, 8, 100):
        counts = np.bincount(task_index(places, n), minlength=n)
        assert counts.max() < len(keys) / n + 5 * (len(keys) / n) ** 0.5


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1), st.integers(1, 1000))
def test_twice_as_many_tasks_have_the_halves(places, n):
    given_places = np.array(places, np.uint32)
    index = task_index(given_places, n)
    assert index.tolist() == [place * n >> 32 for place in places]
    assert (task_index(given_places, 2 * n) // 2 == index).all()


# ---- columns against single values ---------------------------------------------------------------

TEXT = st.text(st.characters() | st.sampled_from("ab\0\ud83d\ude00😀"), max_size=20)
INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = {
    "str": TEXT,
    "long str": st.builds(str.__mul__, TEXT, st.integers(0, 20)),
    "int": INT64,
    "large int": st.integers() | st.integers(2**62, 2**65),
    "float": st.floats(),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=20),
    "mixed": TEXT | INT64 | st.floats() | st.booleans() | st.none() | st.binary() | st.lists(TEXT),
    "equal keys": st.sampled_from([1, 1.0, True, 0, 0.0, -0.0, False, "1", b"1"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
@given(data=st.data(), times=st.sampled_from([1, 30]))
def test_a_column_hashes_as_its_values(kind, data, times):
    values = data.draw(st.lists(COLUMNS[kind], max_size=10)) * times  # a long one takes other paths
    hashes = column_hash(values)
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [value_hash(value) for value in values]


ARROW = {
    "string": (pa.string(), st.text(max_size=20)),
    "large_string": (pa.large_string(), st.text("aé😀\0", max_size=20)),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "large_binary": (pa.large_binary(), st.binary(max_size=20)),
    "int64": (pa.int64(), INT64),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float64": (pa.float64(), st.floats()),
    "float32": (pa.float32(), st.floats(width=32)),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
    "list": (pa.list_(pa.int64()), st.lists(INT64, max_size=3)),
    "date": (pa.date32(), st.dates()),
}


@pytest.mark.parametrize("kind", ARROW)
@given(data=st.data(), times=st.sampled_from([1, 30]))
def test_an_arrow_column_hashes_as_its_python_values(kind, data, times):
    arrow_type, elements = ARROW[kind]
    values = data.draw(st.lists(elements | st.none(), max_size=10)) * times
    array = pa.array(values, arrow_type)
    begin = data.draw(st.integers(0, len(values)))
    expected = [value_hash(value) for value in array.to_pylist()]
    assert column_hash(array).tolist() == expected
    assert column_hash(array[begin:]).tolist() == expected[begin:]
    if kind not in ("null", "list", "date"):
        encoded = array.dictionary_encode()
        assert column_hash(encoded).tolist() == expected
        assert column_hash(encoded[begin:]).tolist() == expected[begin:]


def test_a_null_in_an_arrow_dictionary_is_none():
    dictionary = pa.DictionaryArray.from_arrays([0, 1, None] * 30, pa.array(["a", None]))
    assert column_hash(dictionary).tolist() == [97, 0, 0] * 30


@pytest.mark.parametrize("alphabet", ["abc", "aé€", "a😀"])
def test_columns_of_many_and_of_long_strings(alphabet):
    rng = random.Random(3)
    many = ["".join(rng.choices(alphabet, k=rng.randrange(12))) for _ in range(10_000)]
    long = [
        "".join(rng.choices(alphabet, k=3)) * 20_000 for _ in range(70)
    ]  # many blocks of powers
    apart = [*many[:100], "a\0b", "\ud800"]  # can't be one text
    for values in (apart, [*many[:100], 1]):
        assert column_hash(values).tolist() == [value_hash(value) for value in values]
    for values in (many, long):
        expected = [value_hash(value) for value in values]
        assert column_hash(values).tolist() == expected
        assert column_hash(pa.array(values)).tolist() == expected
        assert column_hash(pa.array(values)[5:-3]).tolist() == expected[5:-3]


def test_a_column_with_more_text_than_fits_into_one_computation():
    values = ["x" * (MAX_UNITS // 70) + str(i) for i in range(72)]
    expected = [value_hash(value) for value in values]
    assert column_hash(values).tolist() == expected
    assert column_hash(pa.array(values)).tolist() == expected
    assert column_hash(pa.array(values).cast(pa.binary())).tolist() == [
        value_hash(value.encode()) for value in values
    ]


@given(
    st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=6), max_size=6),
    st.sampled_from([0, 70_000]),
)
def test_polynomials_of_segments(segments, padding):
    segments = [[0] * padding, *segments]  # leading zeros add nothing, but move what follows
    units = np.array([unit for segment in segments for unit in segment], np.uint16)
    ends = np.cumsum([len(segment) for segment in segments])
    expected = []
    for segment in segments:
        total = 0
        for unit in segment[-6:]:
            total = (31 * total + unit) % 2**32
        expected.append(total)
    assert polynomials(units, ends).tolist() == expected
    assert [polynomial(np.array(s, np.uint16)) for s in segments] == expected


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.lists(st.integers(0, MAX_UNITS)))
@example([MAX_UNITS, 0, 65535, 65536, 65537])
def test_powers(exponents):
    expected = [pow(31, exponent, 2**32) for exponent in exponents]
    assert power(np.array(exponents, np.int64), max(exponents, default=0)).tolist() == expected


@given(st.lists(st.tuples(TEXT, INT64, st.floats()), min_size=1, max_size=5))
def test_rows_of_several_fields(rows):
    columns = [column_hash(list(column)) for column in zip(*rows, strict=True)]
    before = [column.tolist() for column in columns]
    assert positions(columns).tolist() == [list_hash(row) % 2**32 for row in rows]
    assert [column.tolist() for column in columns] == before


# ---- other types --------------------------------------------------------------


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 3


class Word(str):
    __slots__ = ()

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return False


@dataclass(frozen=True)
class Point:
    x: int


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "like"),
    [
        pytest.param(np.int64(-5), -5, id="numpy int"),
        pytest.param(np.uint64(2**64 - 1), 2**64 - 1, id="numpy uint64"),
        pytest.param(np.float32(0.5), 0.5, id="numpy float32"),
        pytest.param(np.float64(0.1), 0.1, id="numpy float64"),
        pytest.param(np.bool_(True), True, id="numpy bool"),
        pytest.param(np.str_("é"), "é", id="numpy str"),
        pytest.param(Level.LOW, 3, id="IntEnum"),
        pytest.param(enum.StrEnum("S", ["A"]).A, "a", id="StrEnum"),
        pytest.param(Word("abc"), "abc", id="subclass of str"),
        pytest.param(Pair(1, "b"), [1, "b"], id="named tuple"),
        pytest.param(bytearray(b"\xff"), b"\xff", id="bytearray"),
        pytest.param(Color.RED, "<Color.RED: 1>", id="Enum"),
        pytest.param(Point(2), "Point(x=2)", id="dataclass"),
        pytest.param(date(2024, 2, 29), "datetime.date(2024, 2, 29)", id="date"),
        pytest.param(time(1), "datetime.time(1, 0)", id="time"),
        pytest.param(
            datetime(2024, 1, 2, 3, 4, tzinfo=UTC),
            "datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)",
            id="datetime",
        ),
        pytest.param(uuid.UUID(int=1), f"UUID('{'0' * 8}-0000-0000-0000-{'1':0>12}')", id="UUID"),
    ],
)
def test_what_another_value_hashes_like(value, like):
    assert value_hash(value) == value_hash(like)
    assert list_hash([[value]]) == list_hash([[like]])
    for rows in (1, 100):
        assert column_hash([value] * rows).tolist() == [equal_hash(value)] * rows
        assert column_hash(["x"] + [value] * rows).tolist()[1:] == [equal_hash(value)] * rows


INTEGERS = st.integers() | INT64 | st.integers(-3, 3) | st.integers(2**61 - 3, 2**61 + 3)
NUMBERS = INTEGERS | st.floats(allow_nan=False) | st.fractions() | st.decimals(allow_nan=False)


def equal_numbers(number):
    """The number in every type that has it."""
    yield number
    for kind in (int, float, Fraction, Decimal, complex, np.int64, np.float64, np.float32, np.int8):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = kind(number)
                # float32(0.1) == 0.1, says NumPy, but their hashes differ.
                equal = other == number and hash(other) == hash(number)
        except (ValueError, OverflowError, TypeError, ArithmeticError):
            continue
        if equal:
            yield other


@given(NUMBERS)
@example(1)
@example(-1)
@example(0.1)
@example(2**64)
@example(3.4028235677973366e38)  # float32 has no room for it
def test_equal_numbers_are_one_key(number):
    equal = list(equal_numbers(number))
    event(f"{len(equal)} types")
    assert len({equal_hash(one) for one in equal}) == 1
    for one in equal:
        assert column_hash([one]).tolist() == [equal_hash(number)]
        assert equal_hash([one]) == equal_hash((number,))


def test_a_number_that_is_too_long_to_be_written_out_has_a_hash():
    assert equal_hash(Decimal("1E+999999")) == equal_hash(Decimal("10E+999998"))


def test_true_is_1_and_there_is_one_nan_and_one_zero():
    nans = [math.nan, -math.nan, Decimal("nan"), Decimal("sNaN"), np.float32("nan"), complex("nan")]
    for alike in ([True, 1], [False, 0, 0.0, -0.0, Decimal("-0.00")], nans):
        assert len({equal_hash(value) for value in alike}) == 1


class Opaque:
    pass


class Broken:
    def __repr__(self):
        raise KeyError("name")


FIELD = "Emit a field of it instead, or give it a __repr__ of its contents, as a dataclass has."
ITEMS = "the order of its items is no part of its value. Emit tuple(sorted(value.items())) instead."
ELEMENTS = "the order of its elements is no part of its value. Emit tuple(sorted(value)) instead."


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        ({"a": 1}, "dict", ITEMS),
        (OrderedDict(), "OrderedDict", ITEMS),
        ({1}, "set", ELEMENTS),
        (frozenset(), "frozenset", ELEMENTS),
        (np.arange(3), "ndarray", "its text is abridged. Emit value.tolist() instead."),
        (Opaque(), "Opaque", f"its repr() is an address in memory. {FIELD}"),
        (threading.Lock(), "lock", f"its repr() has an address in memory. {FIELD}"),
        (Broken(), "Broken", f"its repr() raised KeyError: 'name'. {FIELD}"),
    ],
)
def test_what_has_no_stable_hash_is_refused(value, kind, why):
    text = (
        f"no task can be chosen by a value of type '{kind}': it has no hash that is the same in "
        f"every process, because {why}"
    )
    with pytest.raises(GroupingError) as raised:
        value_hash([value])
    assert str(raised.value) == text
    for values in (["a", "b", value, "c"], ["a", "b", value] + 100 * ["c"]):
        with pytest.raises(GroupingError) as raised:
            column_hash(values)
        assert (str(raised.value), raised.value.emission) == (text, 2)


def test_an_arrow_struct_is_refused_as_a_dict():
    with pytest.raises(GroupingError, match="of type 'dict'") as raised:
        column_hash(pa.array([None, {"a": 1}] + [None] * 100))
    assert raised.value.emission == 1


def test_the_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(GroupingError("why", 3, 1)))
    assert (str(error), error.emission, error.field) == ("why", 3, 1)


# ---- the cache -----------------------------------------------------------------------------------


def test_the_cache_is_bounded_in_entries_and_in_length(monkeypatch):
    monkeypatch.setattr(_Strings, "ENTRIES", 3)
    cache = _Strings()
    values = ["a", "b", "c", "a", "d", "", "x" * 64, "y" * 65]
    assert [cache[value] for value in values] == [value_hash(value) for value in values]
    assert list(cache) == ["d", "", "x" * 64]


def test_the_cache_holds_nothing_but_strings():
    column_hash(["cached", np.str_("cached too"), Word("abc"), 1, True])
    column_hash([Word("abc")])
    assert {type(key) for key in string_hashes} == {str}
