from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.state.messages.id_runs import IdRuns, kinds_of, tracked_of

STARTS = st.sampled_from([0, 40, 80, 1000])
RANGES = st.builds(
    lambda start, n, step: range(start, start + n * step, step),
    STARTS,
    st.sampled_from([0, 1, 31, 32, 40]),
    st.sampled_from([1, 1, 1, 2, -1]),
)
SOME = st.lists(st.sampled_from([None, 1, "a", (2, "b")]), max_size=3)


@given(st.lists(RANGES | SOME, max_size=8), SOME)
def test_runs_are_as_a_list_of_their_ids(added, singly):
    runs, expected = IdRuns(), []
    for ids in added:
        runs.extend(ids)
        expected += ids
    for msg_id in singly:
        runs.append(msg_id)
        expected.append(msg_id)
    assert list(runs) == [runs[i] for i in range(len(runs))] == runs[:] == expected
    for a, b in ((0, 2), (1, 40), (38, 45), (70, 90)):
        assert runs[a:b] == expected[a:b]
    assert kinds_of(runs) == set(map(type, expected))
    assert list(tracked_of(runs)) == [msg_id for msg_id in expected if msg_id is not None]


def test_what_runs_were_made_of_does_not_grow_with_them():
    given_ids = ["a"]
    runs = IdRuns(given_ids)
    runs.append("b")
    assert given_ids == ["a"]


def test_ranges_of_numbers_stay_ranges():
    runs = IdRuns(range(40))
    runs.extend(range(40, 41))
    runs.extend(range(100, 140))
    assert runs.parts == [range(41), range(100, 140)]
    assert tracked_of(runs) is runs
