import datetime
import enum
import math
import pickle
import random
import struct
import threading
import uuid
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen.engine.grouping.column_hash import column_hash, list_hash_columns, task_index
from fulmen.engine.grouping.polynomials import MAX_UNITS, polynomial, polynomials, power
from fulmen.engine.grouping.value_hash import _Strings, java_hash, list_hash, string_hashes
from fulmen.errors import GroupingError
from support.runs.java_source import run_java

# value, hash of the list of it, and its index among 2, 3, 4, 6, 12 tasks: what Java says
STORM = [
    ("nathan", -1052620301, [1, 1, 3, 1, 7]),
    ("bob", 97748, [0, 2, 0, 2, 8]),
    ("joey", 3267800, [0, 2, 0, 2, 8]),
    ("a", 128, [0, 2, 0, 2, 8]),
    ("the", 114832, [0, 1, 0, 4, 4]),
    ("cow", 98730, [0, 0, 2, 0, 6]),
    ("jumped", -1148867220, [0, 0, 0, 0, 0]),
    ("over", 3423475, [1, 1, 3, 1, 7]),
    ("moon", 3357472, [0, 1, 0, 4, 4]),
    ("dog", 99675, [1, 0, 3, 3, 3]),
    ("cat", 98293, [1, 1, 1, 1, 1]),
    ("apple", 93029241, [1, 0, 1, 3, 9]),
    ("mango", 103662561, [1, 0, 1, 3, 9]),
    (1, 32, [0, 2, 0]),
    (0, 31, [1, 1, 3]),
    (-1, 31, [1, 1, 3]),
    (1234567890123456789, 1825280512, [0, 1, 0]),
    (-1234567890123456789, 1825280511, [1, 0, 3]),
    (2**63 - 1, -2147483617, [1, 2, 3]),
    (-(2**63), -2147483617, [1, 2, 3]),
]


@pytest.mark.parametrize(("value", "hashed", "indexes"), STORM)
def test_values_go_where_storm_sends_them(value, hashed, indexes):
    assert list_hash([value]) == hashed
    for rows in (1, 100):
        column = list_hash_columns([column_hash([value] * rows)])
        in_arrow = list_hash_columns([column_hash(pa.array([value] * rows))])
        for n, index in zip([2, 3, 4, 6, 12], indexes, strict=False):
            assert task_index(column, n).tolist() == [index] * rows
            assert task_index(in_arrow, n).tolist() == [index] * rows


# ---- compared with Java --------------------------------------------------------------------------

JAVA = """
import java.math.BigInteger;
import java.util.*;

public class Hashes {
    static Object read(Scanner in) {
        String kind = in.next();
        switch (kind) {
            case "null": return null;
            case "bool": return Boolean.valueOf(in.next());
            case "long": return Long.valueOf(in.next());
            case "big": return new BigInteger(in.next());
            case "double": return Double.longBitsToDouble(Long.parseUnsignedLong(in.next(), 16));
            case "string": {
                char[] units = new char[in.nextInt()];
                for (int i = 0; i < units.length; i++) units[i] = (char) in.nextInt();
                return new String(units);
            }
            case "bytes": {
                byte[] bytes = new byte[in.nextInt()];
                for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) in.nextInt();
                return bytes;
            }
            default: {  // a List, as in a tuple; an array where it has bytes in it
                Object[] values = new Object[in.nextInt()];
                for (int i = 0; i < values.length; i++) values[i] = read(in);
                return kind.equals("list") ? Arrays.asList(values) : values;
            }
        }
    }

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNext()) System.out.println(Arrays.deepHashCode(new Object[] {read(in)}));
    }
}
"""


def written(value):
    """A value in the words that the Java program reads."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"bool {str(value).lower()}"
    if isinstance(value, int):
        return f"{'long' if -(2**63) <= value < 2**63 else 'big'} {value}"
    if isinstance(value, float):
        return f"double {struct.pack('>d', value).hex()}"
    if isinstance(value, str):
        units = value.encode("utf-16-le", "surrogatepass")
        numbers = [units[i] + 256 * units[i + 1] for i in range(0, len(units), 2)]
        return " ".join(map(str, ["string", len(numbers), *numbers]))
    if isinstance(value, bytes):
        return " ".join(map(str, ["bytes", len(value), *value]))
    kind = "array" if has_bytes(value) else "list"
    return " ".join([kind, str(len(value)), *map(written, value)])


def has_bytes(value):
    return isinstance(value, bytes) or (isinstance(value, list) and any(map(has_bytes, value)))


def made_up(rng):
    """Values of every kind, with what is special in each."""
    alphabets = ["ab", "äöüß€", "日本語", "😀🎉𝄞x", "\ud800\udc00\udfff", "\0a"]
    for alphabet in alphabets:
        yield from ("".join(rng.choices(alphabet, k=k)) for k in [0, 1, 2, 5, 63, 64, 65, 129, 999])
    yield from (rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in range(1, 65))
    for bits in range(64, 300, 7):
        yield from (1 << bits, -(1 << bits), rng.getrandbits(bits) | 1 << bits, 1 - (1 << bits))
    yield from (2**63, -(2**63) - 1, 2**64, -(2**64), 2**64 - 1, 2**96, -(2**96))
    yield from (struct.unpack(">d", rng.randbytes(8))[0] for _ in range(200))
    yield from (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, -math.nan, 5e-324, 1.7e308)
    yield from (True, False, None, [], [[]], [None], b"", b"\x80\xff\x00\x7f", rng.randbytes(5000))
    yield from ([1, 1.0, True, "1", None], [[1, ["é", [2**70]]], -1], [b"\xff", [b"a"]])


def test_every_kind_of_value_hashes_as_in_java(tmp_path):
    values = list(made_up(random.Random(7)))
    lines = run_java(tmp_path, "Hashes", JAVA, "\n".join(map(written, values)))
    assert [list_hash([value]) for value in values] == [int(line) for line in lines]


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
    assert hashes.tolist() == [java_hash(value) for value in values]


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
    expected = [java_hash(value) for value in array.to_pylist()]
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
        assert column_hash(values).tolist() == [java_hash(value) for value in values]
    for values in (many, long):
        expected = [java_hash(value) for value in values]
        assert column_hash(values).tolist() == expected
        assert column_hash(pa.array(values)).tolist() == expected
        assert column_hash(pa.array(values)[5:-3]).tolist() == expected[5:-3]


def test_a_column_with_more_text_than_fits_into_one_computation():
    values = ["x" * (MAX_UNITS // 70) + str(i) for i in range(72)]
    expected = [java_hash(value) for value in values]
    assert column_hash(values).tolist() == expected
    assert column_hash(pa.array(values)).tolist() == expected
    assert column_hash(pa.array(values).cast(pa.binary())).tolist() == [
        java_hash(value.encode()) for value in values
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


@given(st.lists(st.tuples(TEXT, INT64, st.floats()), min_size=1, max_size=5), st.integers(1, 100))
def test_rows_of_several_fields(rows, n):
    columns = [column_hash(list(column)) for column in zip(*rows, strict=True)]
    hashes = list_hash_columns(columns)
    assert hashes.tolist() == [list_hash(row) for row in rows]
    for times in (1, 50):
        expected = [list_hash(row) % n for row in rows] * times
        assert task_index(np.tile(hashes, times), n).tolist() == expected


def test_the_hashes_of_the_columns_are_left_as_they_are():
    columns = [column_hash([1, 2]), column_hash(["a", "b"])]
    list_hash_columns(columns)
    assert [column.tolist() for column in columns] == [[1, 2], [97, 98]]


# ---- types that Java does not have ---------------------------------------------------------------


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
        pytest.param(Decimal("1.0"), "Decimal('1.0')", id="Decimal"),
        pytest.param(Point(2), "Point(x=2)", id="dataclass"),
        pytest.param(datetime.date(2024, 2, 29), "datetime.date(2024, 2, 29)", id="date"),
        pytest.param(datetime.time(1), "datetime.time(1, 0)", id="time"),
        pytest.param(
            datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.UTC),
            "datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)",
            id="datetime",
        ),
        pytest.param(uuid.UUID(int=1), f"UUID('{'0' * 8}-0000-0000-0000-{'1':0>12}')", id="UUID"),
    ],
)
def test_what_another_value_hashes_like(value, like):
    assert java_hash(value) == java_hash(like)
    assert list_hash([[value]]) == list_hash([[like]])
    for rows in (1, 100):
        assert column_hash([value] * rows).tolist() == [java_hash(like)] * rows
        assert column_hash(["x"] + [value] * rows).tolist()[1:] == [java_hash(like)] * rows


def test_1_and_its_equals_are_three_keys():
    assert [java_hash(value) for value in (1, 1.0, True)] == [1, 1072693248, 1231]


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
        java_hash([value])
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
    assert [cache[value] for value in values] == [java_hash(value) for value in values]
    assert list(cache) == ["d", "", "x" * 64]


def test_the_cache_holds_nothing_but_strings():
    column_hash(["cached", np.str_("cached too"), Word("abc"), 1, True])
    column_hash([Word("abc")])
    assert {type(key) for key in string_hashes} == {str}
