"""What is kept of messages that are dead letters."""

import pickle

import pytest

from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.letters import dead_letters, letter_entries, shown_values
from fulmen.engine.state.letters.dead_letters import (
    DeadLetter,
    LetterKind,
    LostMessage,
    MessageFailure,
)
from fulmen.engine.state.letters.letter_entries import LetterRoom, letters_in


class Hostile:
    def no(self, *_):
        raise SystemExit

    __repr__ = __str__ = __hash__ = __eq__ = __reduce__ = __reduce_ex__ = no


class Text(str):
    __slots__ = ()


class Order:
    def __repr__(self):
        return "Order(7)"


NAME = f"<{__name__}.Hostile>"
DEADLY, GIVEN_UP = LetterKind.KILLS_WORKERS, LetterKind.GIVEN_UP


def letter(*values, kind=GIVEN_UP, msg_id=None, most_bytes=1000, reason="no"):
    failure = MessageFailure(1, reason)
    lost = LostMessage("default", values, msg_id)
    return dead_letters.letter_of(lost, kind, failure, 12.5, most_bytes)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (7, 7),
        ("x" * 20_000, "x" * 10_000 + "… (10,000 more characters)"),
        (b"abc", b"abc"),
        ([1, ("a", 2.5)], [1, ("a", 2.5)]),
        ({"a": [1], (1, 2): 3}, {"a": [1], "(1, 2)": 3}),
        (Text("a"), f"<{__name__}.Text>"),
    ],
)
def test_builtin_values_are_shown_as_they_are_but_not_endlessly(value, kept):
    assert shown_values.shown(value) == kept


def test_objects_are_named_by_their_class_and_none_of_their_methods_is_called():
    assert shown_values.shown([Hostile(), {"a": Hostile()}]) == [NAME, {"a": NAME}]


def test_a_value_that_is_nested_without_end_is_shown_in_part():
    value = []
    value.append(value)
    assert str(shown_values.shown(value)).startswith("[[[[")


def test_values_are_kept_whole_and_what_they_are_shown_as_is_cut():
    long = "x" * 20_000
    made = letter(long, [1, {"a": b"b"}], msg_id=("p", 7), most_bytes=100_000)
    assert dead_letters.contents(made.data) == ([long, [1, {"a": b"b"}]], ("p", 7))
    assert len(made.shown[0]) < 11_000
    assert made.msg_id == ("p", 7)


def test_values_that_are_too_large_are_not_kept_and_it_says_so():
    made = letter("x" * 2000)
    assert (made.data, made.shown) == (None, ["x" * 2000])
    assert made.why_not == "its values have 2,024 bytes, and 1,000 are kept at most"


def test_of_what_kills_workers_no_object_is_pickled_or_asked_for_its_text():
    made = letter(Hostile(), kind=DEADLY)
    assert made.shown == [NAME]
    assert made.data is None
    assert "may be what kills workers" in made.why_not
    plain = letter([1, {"a": "b"}], kind=DEADLY, msg_id=7)
    assert dead_letters.contents(plain.data) == ([[1, {"a": "b"}]], 7)


def test_of_what_only_failed_objects_are_shown_as_their_text_and_kept():
    made = letter(Order(), Text("a"))
    assert made.shown == ["Order(7)", "'a'"]
    assert type(dead_letters.contents(made.data)[0][0]) is Order


def test_what_can_not_be_pickled_is_shown_and_says_why_it_can_not_be_sent_again():
    made = letter(lambda: None)
    assert made.data is None
    assert "can't be pickled, or not be read again" in made.why_not


def test_a_letter_is_read_as_it_was_written_and_the_checkpoint_has_builtin_types_alone():
    made = letter(1, msg_id=2)
    assert DeadLetter.of(made.entry()) == made
    assert b"fulmen" not in pickle.dumps(made.entry())


def added(letters, limits, batches=1):
    kept = KeyedState()
    for batch in range(batches):
        letter_entries.add_all(kept, letters, batch, 3, limits)
    return kept


def test_the_newest_are_kept_and_it_is_counted_how_many_had_to_go():
    kept = added([letter(n) for n in range(70)], LetterRoom(50, 10**9), batches=2)
    assert [one.shown for _, one in letters_in(kept)] == [[n] for n in range(20, 70)]
    assert {one.key[:2] for one, _ in letters_in(kept)} == {(1, 3)}
    assert letter_entries.forgotten_in(kept) == 90


def test_all_together_have_so_many_bytes_at_most():
    limits = LetterRoom(1000, 20_000)
    kept = added([letter("x" * 900, n) for n in range(30)], limits)
    sizes = [one.bytes for _, one in letters_in(kept)]
    assert 5 < len(sizes) < 30
    assert sum(sizes) <= limits.most_bytes < sum(sizes) + sizes[0]


def test_what_is_to_be_sent_again_is_not_forgotten():
    kept = added([letter(n) for n in range(3)], LetterRoom(3, 10**9))
    [first, *_] = [one for one, _ in letters_in(kept)]
    assert letter_entries.want(kept, [first], "me") == [first]
    letter_entries.add_all(kept, [letter(n) for n in range(3, 6)], 7, 3, LetterRoom(3, 10**9))
    assert [one.shown for _, one in letters_in(kept)] == [[0], [4], [5]]


def test_a_message_that_is_given_up_again_is_the_same_letter():
    kept = added([letter(1, msg_id="a"), letter(2, msg_id="b")], LetterRoom(9, 10**9))
    letter_entries.add_all(kept, [letter(1, msg_id="a", reason="new")], 7, 3, LetterRoom(9, 10**9))
    assert [(one.shown, one.reason) for _, one in letters_in(kept)] == [([1], "new"), ([2], "no")]


def test_only_what_is_kept_with_its_values_can_be_wanted_and_only_once():
    kept = added([letter(1), letter(lambda: None)], LetterRoom(9, 10**9))
    ids = [one for one, _ in letters_in(kept)]
    assert letter_entries.want(kept, [*ids, (9, 9, 9)], "me") == ids[:1]
    assert letter_entries.want(kept, ids, "me") == []


def test_what_is_wanted_can_still_be_dropped():
    kept = added([letter(1), letter(2)], LetterRoom(9, 10**9))
    ids = [one for one, _ in letters_in(kept)]
    letter_entries.want(kept, ids[:1], "me")
    assert letter_entries.drop(kept, ids) == ids
    assert list(letters_in(kept)) == []


def test_where_messages_failed_is_remembered_for_the_newest_reasons():
    kept = added([letter(1)], LetterRoom(9, 10**9))
    for n in range(30):
        cause = dead_letters.FailureCause("'count', task 1", f"traceback {n}")
        letter_entries.note_causes(kept, {f"reason {n}": cause})
    assert letter_entries.cause_of(kept, "reason 29") == ("'count', task 1", "traceback 29")
    assert letter_entries.cause_of(kept, "reason 9") == ("", "")
    assert letter_entries.count_of(kept) == 1
    assert len(list(letters_in(kept))) == 1
