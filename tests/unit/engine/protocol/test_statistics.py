"""What is counted has names that are texts to everyone who does not know the enumeration."""

import json
import pickle
from collections import Counter

import pytest

from fulmen.engine.protocol.figures.statistics import EMITTED, Statistic, acker_name, is_one_acker


@pytest.mark.parametrize("statistic", Statistic)
def test_a_statistic_is_found_by_its_text_and_the_other_way_round(statistic):
    by_member, by_text = (
        Counter({("a", statistic, ""): 1}),
        Counter({("a", statistic.value, ""): 2}),
    )
    assert (by_member["a", statistic.value, ""], by_text["a", statistic, ""]) == (1, 2)


def test_a_statistic_is_its_text_in_json_and_in_messages():
    assert json.dumps({EMITTED: [EMITTED]}) == '{"emitted": ["emitted"]}'
    assert f"{EMITTED}" == "emitted"


def test_a_statistic_that_was_sent_is_the_same():
    assert pickle.loads(pickle.dumps(EMITTED)) is EMITTED


def test_an_acker_by_itself_is_told_from_all_of_them():
    names = (acker_name(7), "__acker", "count")
    assert [is_one_acker(name) for name in names] == [True, False, False]
