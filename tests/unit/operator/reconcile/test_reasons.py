"""Every reason of a condition or an event is explained in docs/conditions.md."""

import re
from typing import get_args

import pytest

from fulmen.kube.contract.endings import EndReason
from fulmen.kube.contract.reports import OutageReason
from fulmen.topology.resource.status import State
from fulmen_operator.reasons import News, Reason, news_of
from support.cluster.reasons import PAGE, explained

NEVER_A_REASON = {"Drained", "Finished", "Valid", "Terminated", "Failed"}
"""Ends of a driver, and a state, that no condition gives: another reason says more."""
OF_KUBERNETES = {"Unschedulable", "ImagePullBackOff"}
"""Examples that the page gives of reasons in Kubernetes' own words."""


def of_events():
    """The reasons that the page explains below the table, where only events have them."""
    text = PAGE.read_text(encoding="utf-8")
    [line] = re.findall(r"^There are further reasons of events: (.+?), and the", text, re.M | re.S)
    return set(re.findall(r"`(\w+)`", line))


def test_the_page_explains_all_reasons_and_no_others():
    given = {*Reason, *get_args(State), *get_args(EndReason), *get_args(OutageReason)}
    assert explained() | of_events() == (given - NEVER_A_REASON) | OF_KUBERNETES


def test_a_reason_of_events_is_in_no_table():
    assert explained() & of_events() == set()


@pytest.mark.parametrize(
    ("reason", "news"),
    [
        ("Moving", News.EXPECTED),
        ("Failed", News.EXPECTED),
        ("Draining", News.PASSING),
        ("Replacing", News.PASSING),
        ("WorkerRefused", News.TROUBLE),
        ("CheckpointLost", News.TROUBLE),
        ("Unschedulable", News.TROUBLE),
    ],
)
def test_a_reason_says_who_is_told_of_it(reason, news):
    assert news_of(reason) is news
