import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.grouping.partial_key import Choices, _next_int, two_choices, two_choices_columns
from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.value_hash import value_hash
from support.runs.java_source import run_java

# Storm's way from a key's hashes to two tasks, and the generator's numbers for a seed.
JAVA = """
import java.nio.ByteBuffer;
import java.util.*;

public class Draws {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        while (in.hasNext()) {
            String what = in.next();
            if (what.equals("seed")) {
                Random random = new Random(in.nextLong());
                int bound = in.nextInt();
                StringBuilder line = new StringBuilder();
                for (int i = 0; i < 20; i++) line.append(random.nextInt(bound)).append(' ');
                System.out.println(line.toString().trim());
            } else {
                int n = in.nextInt();
                int values = in.nextInt();
                ByteBuffer key = ByteBuffer.allocate(4 * values);
                for (int i = 0; i < values; i++) key.putInt(in.nextInt());
                Random random = new Random(Arrays.hashCode(key.array()));
                int first = random.nextInt(n);
                int second = random.nextInt(n);
                System.out.println(first + " " + (second == first ? (second + 1) % n : second));
            }
        }
    }
}
"""

# Powers of two have a rule of their own; with the large bounds many draws are rejected.
BOUNDS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 64, 100, 1000, 1 << 30, (1 << 30) + 1, (1 << 31) - 1]
HASH = st.integers(-(2**31), 2**31 - 1)


def drawn(seed, bound):
    state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)
    for _ in range(20):
        value, state = _next_int(state, bound)
        yield value


def test_numbers_and_choices_are_those_of_java(tmp_path):
    rng = random.Random(5)
    seeds = [(rng.randint(-(2**31), 2**31 - 1), bound) for bound in BOUNDS for _ in range(5)]
    keys = [
        (bound, [rng.randint(-(2**31), 2**31 - 1) for _ in range(rng.randrange(1, 4))])
        for bound in BOUNDS
        for _ in range(20)
    ]
    asked = [f"seed {seed} {bound}" for seed, bound in seeds]
    asked += [f"key {n} {len(key)} {' '.join(map(str, key))}" for n, key in keys]
    said = [
        tuple(map(int, line.split()))
        for line in run_java(tmp_path, "Draws", JAVA, "\n".join(asked))
    ]
    assert [tuple(drawn(seed, bound)) for seed, bound in seeds] == said[: len(seeds)]
    assert [two_choices(key, n) for n, key in keys] == said[len(seeds) :]


@pytest.mark.parametrize(
    ("word", "n", "choices"),
    [
        ("nathan", 2, (1, 0)),
        ("nathan", 12, (0, 6)),
        ("apple", 2, (0, 1)),
        ("apple", 12, (1, 9)),
        ("", 12, (1, 11)),
    ],
)
def test_choices_of_words(word, n, choices):
    assert two_choices([value_hash(word)], n) == choices


@given(st.lists(st.tuples(HASH, HASH), min_size=1), st.sampled_from(BOUNDS))
def test_columns_choose_as_single_keys(keys, n):
    columns = [np.array(column, np.int32) for column in zip(*keys, strict=True)]
    for width in (1, 2):
        first, second = two_choices_columns(columns[:width], n)
        expected = [two_choices(key[:width], n) for key in keys]
        assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected


@pytest.mark.parametrize("n", [2, 12, 256, 257])
@pytest.mark.parametrize("rows", [1, Choices.FEW, Choices.FEW + 1, 500])
def test_choices_of_small_and_large_chunks(n, rows):
    hashes = column_hash([f"w{i % 90}" for i in range(rows)])
    choices = Choices(n)
    expected = [two_choices([key], n) for key in hashes.tolist()]
    assert list(choices.of([hashes])) == expected
    assert list(choices.of([hashes])) == expected


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(Choices, "ENTRIES", 3)
    choices = Choices(5)
    assert [choices[(key,)] for key in range(4)] == [two_choices([key], 5) for key in range(4)]
    assert list(choices) == [(3,)]
