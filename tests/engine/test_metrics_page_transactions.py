"""The page of a transactional topology in a real browser: what it says, and its geometry."""

import json

import pytest

from fulmen.metrics import MetricsServer
from support.metrics.browser import SECONDS, see
from support.metrics.page_data import served
from support.transactions.transacted import run_transacted

pytestmark = pytest.mark.timeout(2 * SECONDS)

WIDTHS = (390, 768, 1280, 1440, 1900, 2560)
NOTHING = {str(width): [] for width in WIDTHS}
SCHEMES = {
    "light": ("--blink-settings=preferredColorScheme=1",),
    "dark": ("--blink-settings=preferredColorScheme=0",),
}


@pytest.fixture(scope="module")
def driver():
    return run_transacted()


@pytest.fixture(scope="module")
def page(driver, tmp_path_factory):
    with MetricsServer("127.0.0.1", 0, lambda: driver.totals) as server:
        page, complaints = see(server.url, tmp_path_factory.mktemp("page"))
    assert complaints == []
    return page


def test_tiles_are_about_transactions(driver, page):
    labels, figures = ([e.text for e in page.id("tiles").all(tag)] for tag in ("dt", "dd"))
    tiles = dict(zip(labels, figures, strict=True))
    attempts = driver.totals.report()["transactions"]["attempts"]
    assert (tiles["committed txid"], tiles["lag"], tiles["active"]) == ("7", "0", "0")
    for outcome in ("failed", "cascaded", "lost"):
        assert tiles[outcome] == str(attempts[outcome]) != "0"
    assert tiles["given up"] == "1"
    assert "trees acked" not in tiles


def test_recent_attempts_are_listed_with_what_became_of_them(driver, page):
    rows = page.id("transactions").rows()
    assert len(rows) == len(driver.totals.transactions.recent)
    newest = rows[0]
    assert (newest[0], *newest[2:4]) == ("7", "committing", "committed")
    assert newest[4] == "100 ms"
    assert all(cell.endswith("s") for cell in newest[4:7])
    assert {row[3] for row in rows} >= {"committed", "failed", "cascaded", "lost", "given up"}
    (given_up,) = page.id("given-up").rows()
    assert given_up == ["6", "2", "metadata 1", "fail always, as it was told"]
    assert page.id("head-failure").text.startswith("transaction 6 failed: 'count', task ")


def test_there_are_no_ackers(page):
    assert "hidden" in page.id("ackers-section").attributes
    assert "hidden" not in page.id("transactions-section").attributes


def test_the_graph_tells_how_many_transactions_are_active(page):
    assert "0 transactions active" in page.id("graph").text
    assert ", 0 transactions/s" in page.id("throughput-now").text


@pytest.mark.matrix(share=1 / 4, name="pages that are measured", cell="transactional")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_everything_has_its_place_and_can_be_read(tmp_path, is_long, scheme):
    """By what the page measures of itself, in windows of each width."""
    options = {"size": 5, "is_long": is_long, "is_transactional": True}
    with served("measured", WIDTHS, **options) as url:
        page, complaints = see(url, tmp_path, 9000, ("--window-size=1280,900", *SCHEMES[scheme]))
    assert complaints == []
    measures = json.loads(page.id("told").text)
    for what in ("runaways", "cutOff", "overlaps", "faint"):
        assert {width: found[what] for width, found in measures.items()} == NOTHING
