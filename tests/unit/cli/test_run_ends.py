"""`fulmen run --until-drained`: what its end says of windows that another run may add to."""

import json

import pytest
import yaml

SPEC = """
apiVersion: fulmen.dev/v1alpha1
kind: Topology
metadata: {name: sales}
spec:
  spouts:
    - name: sales
      class: fulmen.connectors.files.FileSpout
      config: {path: "in/*.jsonl", follow: false, format: {type: json, fields: [shop, sold]}}
      eventTime: {field: sold, lag: 1m}
  bolts:
    - name: per-hour
      class: fulmen.windows.Aggregate
      inputs: [{from: sales, grouping: {type: fields, fields: [shop]}}]
      config: {key: [shop], window: {type: tumbling, size: 1h}, aggregates: {sales: count}}
    - name: lines
      class: fulmen.connectors.files.FileSink
      inputs: [{from: per-hour, grouping: {type: global}}]
      config: {path: out, format: {type: json}}
"""
OPEN = (
    "event time has not ended, as another run with this checkpoint may bring more: 'per-hour'"
    " keeps 1 window. What they would emit by now was emitted as early results. If nothing more"
    " will come: --end-of-input"
)


@pytest.fixture
def run(fulmen, tmp_path):
    (tmp_path / "sales.yaml").write_text(SPEC)
    (tmp_path / "in").mkdir()

    def run(quarter, *options):
        """The summary of a run that finds 15 more sales, and how many each line of the sink has."""
        if quarter is not None:
            rows = [
                {"shop": "kiel", "sold": f"2025-04-01T09:{15 * quarter + i:02}:00Z"}
                for i in range(15)
            ]
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            (tmp_path / "in" / f"{quarter}.jsonl").write_text(lines)
        result = fulmen("run", "sales.yaml", "--in-process", "--until-drained", *options)
        assert result.exit_code == 0, result.stderr
        files = sorted((tmp_path / "out").glob("*"), key=lambda file: file.stat().st_mtime_ns)
        texts = [line for file in files for line in file.read_text().splitlines()]
        return result.stdout, [json.loads(text)["sales"] for text in texts]

    return run


def test_a_job_that_runs_every_quarter_of_an_hour_has_all_sales_of_the_hour(run):
    kept = "--checkpoint", "state"
    for quarter in range(3):
        summary, sales = run(quarter, *kept)
        assert OPEN in summary
        assert sales == [15 * i for i in range(1, quarter + 2)]
    summary, again = run(None, *kept)
    assert OPEN in summary
    assert again == sales
    summary, ended = run(None, *kept, "--end-of-input")
    assert "event time has not ended" not in summary
    assert ended == sales  # it has not changed


def test_no_other_run_can_follow_one_whose_checkpoint_is_not_kept(run):
    summary, sales = run(0)
    assert "event time has not ended" not in summary
    assert sales == [15]


def test_only_an_end_can_be_the_one_of_all_input(fulmen, tmp_path):
    (tmp_path / "sales.yaml").write_text(yaml.safe_dump(yaml.safe_load(SPEC)))
    result = fulmen("run", "sales.yaml", "--in-process", "--end-of-input")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: --end-of-input says that all ends with --until-drained: give both.\n",
    )
