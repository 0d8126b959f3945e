"""The table of what figures are to be, and what they are."""

import json

import pytest
from benchmarks.goals import Goal, Results, read, table


def lines(*found):
    results = Results()
    for benchmark, result in found:
        results.add(benchmark, result)
    return [" ".join(line.split()) for line in table(results)]


THROUGHPUT = ("throughput", {"workers": 2, "sentences_per_second": 220_000})
BARE = ("bare", {"sentences_per_second": 1_000_000})


def test_a_rate_is_told_as_its_share_of_bare():
    row = "2 workers 220,000 sentences/s 0.22 at least 210,000 aim 250,000 reached"
    assert row in lines(BARE, THROUGHPUT)


def test_a_time_is_told_in_thousands_of_sentences_that_bare_does_meanwhile():
    latency = ("latency", {"workers": 2, "rate": 1000, "p50_ms": 60.0})
    row = "2 workers, 1,000/s, p50 60 ms 60k at most 55 aim 40 missed"
    assert row in lines(BARE, latency)


def test_without_bare_there_are_no_ratios():
    assert lines(THROUGHPUT) == [
        "2 workers 220,000 sentences/s at least 210,000 aim 250,000 reached"
    ]


def test_cores_of_all_processes_are_added_up():
    latency = ("latency", {"workers": 1, "rate": 1000, "cores": {"driver": 0.5, "python": 0.25}})
    assert "1 worker, 1,000/s 0.75 cores at most 1 reached" in lines(latency)


@pytest.mark.parametrize(
    ("goal", "value", "verdict"),
    [
        ({"at_least": 2.0, "aim": 3.0}, 1.9, "missed"),
        ({"at_least": 2.0, "aim": 3.0}, 2.0, "reached"),
        ({"at_least": 2.0, "aim": 3.0}, 3.0, "aim reached"),
        ({"at_most": 2.0, "aim": 1.0}, 2.1, "missed"),
        ({"at_most": 2.0, "aim": 1.0}, 1.5, "reached"),
        ({"at_most": 2.0, "aim": 1.0}, 1.0, "aim reached"),
        ({"at_most": 2.0}, 1.0, "reached"),
        ({"aim": 10.0}, 11.0, "aim missed"),
        ({"aim": 10.0}, 10.0, "aim reached"),
    ],
)
def test_verdicts(goal, value, verdict):
    assert Goal("it", "s", lambda results: value, **goal).verdict(value) == verdict


def test_figures_of_several_runs_make_one_table(tmp_path):
    files = [tmp_path / "one", tmp_path / "two"]
    files[0].write_text(
        "A machine\n" + json.dumps({"benchmark": "bare", **BARE[1]}) + "\n\nOn it:\n"
    )
    files[1].write_text(json.dumps({"benchmark": "throughput", **THROUGHPUT[1]}) + "\n")
    assert [" ".join(line.split()) for line in table(read(files))] == lines(BARE, THROUGHPUT)
