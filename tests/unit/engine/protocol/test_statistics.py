"""Figures are texts to everyone who does not know what is declared of them."""

import json
import pickle
from collections import Counter

import pytest

from fulmen.engine.protocol.figures.statistics import EMITTED, FIGURES, acker_name, is_one_acker


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_found_by_its_text_and_the_other_way_round(figure):
    text = str(figure)
    by_figure, by_text = Counter({("a", figure, ""): 1}), Counter({("a", text, ""): 2})
    assert (type(text), by_figure["a", text, ""], by_text["a", figure, ""]) == (str, 1, 2)


def test_figures_are_told_apart():
    assert len({*FIGURES}) == len(FIGURES)


def test_a_figure_is_its_text_in_json_and_in_messages():
    assert json.dumps({EMITTED: [EMITTED]}) == '{"emitted": ["emitted"]}'
    assert f"{EMITTED}" == "emitted"


def test_a_figure_that_was_sent_is_its_text():
    sent = pickle.loads(pickle.dumps(EMITTED))
    assert (type(sent), sent) == (str, EMITTED)


def test_an_acker_by_itself_is_told_from_all_of_them():
    names = (acker_name(7), "__acker", "count")
    assert [is_one_acker(name) for name in names] == [True, False, False]
