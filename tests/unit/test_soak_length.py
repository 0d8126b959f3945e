"""How many rounds a soak has, as tests/support/soaks/soak_length.py counts them."""

from support.soaks.soak_length import rounds


def test_rounds_are_counted_unless_seconds_are_given():
    assert list(rounds(seconds=0, number=3)) == [0, 1, 2]


def test_with_seconds_rounds_go_on_until_these_have_passed():
    times = iter([100.0, 100.0, 104.0, 109.9, 110.0])
    assert list(rounds(seconds=10, number=1, clock=lambda: next(times))) == [0, 1, 2]
