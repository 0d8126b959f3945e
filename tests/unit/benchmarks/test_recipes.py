"""The benchmark of the recipes has all of them, and data for them."""

import csv
from collections import Counter

from benchmarks.recipes.__main__ import JOBS, SAMPLES, Work, base, grown, line
from benchmarks.recipes.checks import CHECKS, difference
from benchmarks.recipes.dataflows import BYTEWAX
from benchmarks.recipes.loops import LOOPS

from support.docs import recipes
from support.transactions.driven import Driven, collecting
from support.transactions.sources import Rows, RowsCoordinator


class Endless(Rows):
    """A source that opens empty transactions when it has nothing more, as a topic does."""

    def get_coordinator(self, conf, context):
        coordinator = RowsCoordinator(self)
        coordinator.is_ready = lambda: True
        return coordinator


def test_each_recipe_is_measured_beside_a_loop():
    pages = {path.stem for path in recipes.FOLDER.glob("*.md")} - {"index"}
    assert {job.page for job in JOBS.values()} == pages
    assert LOOPS.keys() == CHECKS.keys() == {base(name) for name in JOBS} >= BYTEWAX.keys()


def test_the_files_of_a_job_are_on_its_page(tmp_path):
    for job in JOBS.values():
        recipes.lay(job.page, tmp_path)
        for name in (f"{job.topology}.yaml", job.load):
            assert (tmp_path / name).exists(), job.page


def test_a_sample_grows_under_one_header_and_its_keys_stay_unique(tmp_path):
    out = tmp_path / "airports.csv"
    grown(SAMPLES / out.name, out, 1000, unique=True)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["faa"] for row in rows}) == 1000
    assert rows[0]["name"] == rows[149]["name"]
    grown(SAMPLES / "dpkg.log", tmp_path / "dpkg.log", 1000, unique=True)
    found = (tmp_path / "dpkg.log").read_text().splitlines()
    assert found[:291] == (SAMPLES / "dpkg.log").read_text().splitlines() == found[291:582]
    assert len(found) == 1000


def test_a_run_that_failed_has_no_figure():
    results = {
        "fulmen": {"rows": 4001, "seconds": 2.0, "cpu": 1.0, "batches": 2},
        "loop": "ValueError: no",
    }
    said = "| [planes](recipes/planes-to-parquet.md) | CSV → Parquet | 2,000 | - |  |  |  | 2,000 |"
    assert line(JOBS["planes"], results) == said


def test_a_check_tells_what_was_written_too_often_or_not_at_all():
    assert difference(lambda: (Counter("ab"), Counter("ba"))) == ""
    said = "1 rows too many, such as [('a', 1)]; 1 lack, such as [('c', 1)]"
    assert difference(lambda: (Counter("aab"), Counter("abc"))) == said
    assert difference(lambda: (Counter(), Counter())) == "the loop has written nothing"


def test_a_run_whose_source_opens_empty_transactions_comes_to_its_end():
    driven, work = Driven(collecting("endless", Endless([[1, 2, 3]], 1))), Work()
    worked = []
    for _ in range(12):
        driven.step()
        worked.append(work.look(driven.driver.totals))
    assert worked[0]
    assert not any(worked[6:])
    assert (work.executed, work.committed) == (3, 3) < (4, driven.transactions.ledger.committed)
