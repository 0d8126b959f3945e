"""Transactions as Prometheus and the page see them."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from fulmen.engine.driver.driver import Silent
from fulmen.engine.totals.transaction_totals import AttemptOutcome
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.history import History
from fulmen.metrics.snapshot import Snapshot
from support.metrics.page_data import transactions
from support.metrics.scrapes import Scrape, check_consistent, check_documented, documented
from support.runs.metered import run_metered
from support.transactions.transacted import PLAIN, TROUBLE, run_transacted, transacted_driver

COMMITTED = len(TROUBLE) - 1
"""All but the one that is given up."""


@pytest.fixture(scope="module")
def driver():
    """Of a run with trouble of every kind."""
    return run_transacted()


@pytest.fixture(scope="module")
def scrape(driver):
    return Scrape.of(driver.totals)


def shown(totals, **before):
    now = Snapshot.of(totals)
    return TopologyJson(now, replace(now, **before), []).json()


def test_the_documented_metrics_of_transactions_are_there(scrape):
    known = documented().values()
    wanted = {name for metric in known if metric.is_transactional for name in metric.samples}
    assert len(wanted) >= 8
    assert wanted <= scrape.names
    assert scrape.names <= {name for metric in known for name in metric.samples}


def test_they_have_the_documented_types_and_labels(scrape):
    check_documented(scrape)


def test_other_topologies_have_none_of_them():
    totals = run_metered(["a b"]).totals
    assert not [name for name in Scrape.of(totals).names if "transaction" in name or "lag" in name]
    assert shown(totals)["transactions"] is None
    assert "transactions" not in totals.report()


def test_attempts_are_those_of_the_report(driver, scrape):
    report = driver.totals.report()["transactions"]
    found = scrape.by("outcome", "fulmen_transaction_attempts_total")
    assert found == report["attempts"]
    assert found.keys() == set(AttemptOutcome)
    assert scrape.value("fulmen_transaction_committed_txid") == report["committed_txid"] == 7
    assert scrape.sum("fulmen_transactions_active") == 0
    assert scrape.value("fulmen_transaction_head_failures") == 0
    assert scrape.value("fulmen_source_lag_messages", component="rows") == 0


def test_phases_add_up_to_the_whole(scrape):
    seconds = scrape.by("phase", "fulmen_transaction_seconds_sum")
    counts = scrape.by("phase", "fulmen_transaction_seconds_count")
    assert counts == dict.fromkeys(("processing", "processed", "committing", "complete"), COMMITTED)
    assert seconds.pop("complete") == pytest.approx(sum(seconds.values()))
    assert min(seconds.values()) > 0


def test_the_emitter_is_a_source(driver, scrape):
    emitted = scrape.value("fulmen_emitted_total", component="rows", stream="default")
    assert emitted == driver.totals.component("rows")["emitted"] >= len(TROUBLE)
    assert not scrape.all("fulmen_capacity_ratio", component="rows")
    check_consistent(scrape)
    component = shown(driver.totals)["components"][0]
    assert (component["name"], component["kind"], component["pending"]) == ("rows", "spout", None)
    assert component["complete_ms"] > 0


def test_the_source_may_not_know_its_lag(driver):
    totals = replace(driver.totals.transactions, lags={})
    scrape = Scrape.of(replace_transactions(driver.totals, totals))
    assert scrape.all("fulmen_source_lag_messages") == []
    assert scrape.value("fulmen_transaction_committed_txid") == 7


def replace_transactions(totals, transactions):
    """Totals with others of transactions."""
    other = object.__new__(type(totals))
    vars(other).update(vars(totals))
    other.transactions = transactions
    return other


class Watch(Silent):
    """Scrapes after each batch."""

    def __init__(self):
        self.seen, self.lags, self.heads = [], [], []

    def batch(self, totals, done):
        scrape = Scrape.of(totals)
        self.seen.append(scrape.by("phase", "fulmen_transactions_active"))
        self.lags.append(scrape.value("fulmen_source_lag_messages"))
        self.heads.append(scrape.value("fulmen_transaction_head_failures"))
        attempts = totals.transactions.attempts[AttemptOutcome.COMMITTED]
        assert attempts == scrape.value("fulmen_transaction_seconds_count", phase="complete")


def test_gauges_follow_the_batches():
    watch = Watch()
    run_transacted(observer=watch)
    assert {"processed": 3} in watch.seen
    assert watch.seen[-1] == {}
    assert watch.lags[0] == len(TROUBLE) - 3
    assert watch.lags[-1] == 0
    assert max(watch.heads) == 2  # of "fail always", with maxReplays 1
    assert watch.heads[-1] == 0


def test_while_a_batch_runs_its_attempts_are_seen():
    driver = transacted_driver([PLAIN] * 3, max_spout_pending=2).start()
    seen = []
    run = driver.jobs.run

    def looked_at(header, timeout):
        seen.append(Scrape.of(driver.totals).by("phase", "fulmen_transactions_active"))
        return run(header, timeout)

    driver.jobs.run = looked_at
    for _ in range(2):
        driver.step()
    driver.close()
    assert seen == [{"processing": 2}, {"committing": 1, "processed": 1}]


# ---- the page's JSON -----------------------------------------------------------------------------


def test_recent_attempts_say_how_they_ended_and_why(driver):
    found = shown(driver.totals)["transactions"]
    assert found["recent"][0] | {"phases_ms": None} == {
        "txid": 7,
        "attempt": found["recent"][0]["attempt"],
        "phase": "committing",
        "outcome": "committed",
        "phases_ms": None,
        "reason": "",
    }
    newest = found["recent"][0]["phases_ms"]
    assert (newest["processing"], newest["committing"]) == (100.0, 100.0)  # a batch each
    outcomes = {one["outcome"]: one for one in found["recent"]}
    assert outcomes.keys() >= {"committed", "failed", "cascaded", "given_up"}
    assert "fail once, as it was told" in outcomes["failed"]["reason"]  # the oldest
    assert outcomes["failed"]["reason"].startswith("'count', task ")
    assert outcomes["failed"]["phases_ms"]["committing"] is None
    (given_up,) = found["given_up"]
    assert given_up == {
        "txid": 6,
        "metadata": "metadata 1",
        "failures": 2,
        "reason": "fail always, as it was told",
    }


def test_active_attempts_say_where_they_are():
    driver = transacted_driver(["fail always", PLAIN], max_replays=None).start()
    for _ in range(3):
        driver.step()
    driver.close()
    found = shown(driver.totals)["transactions"]
    assert sum(found["active"].values()) == len([o for o in found["recent"] if not o["outcome"]])
    assert found["head_failures"] >= 1
    assert found["head"].endswith("and holds up all behind it: fail always, as it was told")
    assert found["last_failure"].startswith("transaction 1 failed: 'count', task ")


def test_times_and_rates_are_of_the_last_seconds(driver):
    totals = driver.totals
    now = totals.transactions
    before = now.copy()
    before.attempts[AttemptOutcome.COMMITTED] -= 2
    histogram = before.phases["complete"]
    histogram.counts = Counter(list(now.phases["complete"].counts.elements())[:-2])
    histogram.seconds = now.phases["complete"].seconds - 3.0
    moment = Snapshot.of(totals).moment
    found = shown(totals, transactions=before, moment=moment - 4)["transactions"]
    assert found["committed_per_second"] == 0.5
    assert found["phases_ms"]["complete"] == 1500.0
    idle = shown(totals)["transactions"]
    mean = 1000 * now.phases["complete"].seconds / COMMITTED
    assert idle["phases_ms"]["complete"] == pytest.approx(mean, abs=0.01)


def shape(json):
    """Its fields, and those of the first thing in each list."""
    if isinstance(json, dict):
        return {key: shape(value) for key, value in json.items()}
    return [shape(json[0])] if isinstance(json, list) else None


def test_what_tests_of_the_page_show_is_what_a_driver_says(driver):
    real = shown(driver.totals)["transactions"]
    assert shape(transactions(is_long=False)) == shape(real)


def test_it_can_be_written_as_json(driver):
    json.dumps(shown(driver.totals))


def test_metadata_that_can_not_be_read_any_more_are_told_by_their_size(driver):
    transactions = driver.totals.transactions
    given_up = replace(transactions.ledger.given_up[0], metadata={"rows": b"cno.such.module\nX\n."})
    ledger = replace(transactions.ledger, given_up=(given_up,))
    totals = replace_transactions(driver.totals, replace(transactions, ledger=ledger))
    (found,) = shown(totals)["transactions"]["given_up"]
    assert found["metadata"] == "metadata of 19 bytes"


def test_the_past_has_commits():
    driver = transacted_driver([PLAIN] * 4, seconds=1.0, max_spout_pending=1).start()
    past = History(lambda: driver.totals)
    for _ in range(5):
        past.look()
        driver.step()
    driver.close()
    assert [point.committed for point in past.points(0)] == pytest.approx([0, 1, 0, 1])
    assert past.points(0)[1].p50 == pytest.approx(2000, rel=0.02)
