"""The table that CI ends with."""

from support.docs.scripts import script

TABLE = script("ci_table")

XML = """<testsuites><testsuite time="9">
<testcase classname="tests.engine.test_a" name="test_slow[x]" time="7.5"/>
<testcase classname="tests.engine.test_a" name="test_fast" time="0.5"/>
</testsuite></testsuites>"""


def test_parts_files_tests_and_what_was_started_are_listed(tmp_path):
    (tmp_path / "bare").write_text('{"benchmark": "bare", "sentences_per_second": 1800000}')
    (tmp_path / "lint.seconds").write_text("20.0\n")
    (tmp_path / "setup.seconds").write_text("121.0\n")
    (tmp_path / "engine.xml").write_text(XML)
    (tmp_path / "started.json").write_text('{"Kafka": 3}')
    lines = TABLE.report(tmp_path)
    assert "    20.0  lint" in lines
    assert "     8.0  engine: engine.test_a" in lines
    assert "     7.5  engine.test_a::test_slow[x]" in lines
    assert "       3  Kafka" in lines
    assert [line for line in lines if "BUDGET" in line] == [
        "OVER ITS BUDGET: setup took 121 s; 150 s at bare 900,000 are 75 s here"
    ]


def test_a_run_that_ended_early_has_a_table_of_what_there_is(tmp_path):
    assert TABLE.report(tmp_path)[0] == "bare: 900,000 sentences/s"
