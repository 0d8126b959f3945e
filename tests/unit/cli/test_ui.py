"""`fulmen ui`."""

import pytest

from fulmen.cli.commands.cluster import ui
from support.cli.fake_kubectl import Fails, not_found, topology

FORWARDING = "Forwarding from 127.0.0.1:40001 -> 9464\nHandling connection for 40001\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(ui, "_AGAIN_SECONDS", 0.01)


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was to open."""
    found = []
    monkeypatch.setattr(ui.webbrowser, "open", lambda address: found.append(address) or True)
    return found


def with_driver(number, **settings):
    return topology(status={"driverPod": f"word-count-driver-{number}"}, **settings)


def test_the_page_is_opened_once_and_the_next_driver_has_the_same_address(fulmen, kubectl, opened):
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": [
                with_driver(1),
                with_driver(2),
                Fails(not_found()),
            ],
            "get topologies.fulmen.dev": {"items": []},
            "port-forward": FORWARDING,
        }
    )
    result = fulmen("ui", "word-count")
    assert (result.exit_code, result.stdout) == (2, "http://127.0.0.1:40001/\n")
    assert opened == ["http://127.0.0.1:40001/"]
    assert result.stderr.splitlines()[0].startswith(
        "the way to pod 'word-count-driver-1' has ended"
    )
    forwards = [asked[1:] for asked in kubectl.asked if "port-forward" in asked]
    assert forwards == [
        ["port-forward", "--address=127.0.0.1", "pod/word-count-driver-1", ":9464"],
        ["port-forward", "--address=127.0.0.1", "pod/word-count-driver-2", "40001:9464"],
    ]


def test_only_the_address_is_printed_if_no_browser_is_wanted(fulmen, kubectl, opened):
    kubectl.answer_each(
        {
            "get topologies.fulmen.dev/word-count": [with_driver(1), Fails(not_found())],
            "get topologies.fulmen.dev": {"items": []},
            "port-forward": f"E1120 memcache.go:287] couldn't get resource list\n{FORWARDING}",
        }
    )
    result = fulmen("ui", "word-count", "--no-browser", "--port", "40001")
    assert result.stdout == "http://127.0.0.1:40001/\n"
    assert opened == []
    assert "40001:9464" in kubectl.asked[1]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("error: unable to listen on any of the requested ports: [{40001 9464}]", 1),
        ("Error from server (Forbidden): pods is forbidden", 2),
    ],
)
def test_a_way_that_cannot_be_opened_is_an_error(fulmen, kubectl, opened, error, code):
    kubectl.answer(with_driver(1), error)
    result = fulmen("ui", "word-count")
    assert result.exit_code == code
    assert error in result.stderr
    assert opened == []


def test_a_topology_without_a_driver_has_no_page(fulmen, kubectl, opened):
    kubectl.answer(topology(state="Suspended", status={"message": "no pods"}))
    result = fulmen("ui", "word-count")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: topology 'word-count' is Suspended, so there is no page: no pods\n",
    )
