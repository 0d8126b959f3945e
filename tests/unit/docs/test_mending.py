"""The example of a count that is mended says what its commands print, one after another."""

import re
import shlex

from click.testing import CliRunner

from fulmen.cli.main import main
from fulmen.testing import run
from fulmen.topology.reading.documents import parse_yaml
from fulmen.topology.reading.field_problems import parse
from support.docs.pages import ROOT, blocks, commands, write_files


def without_what_differs(text):
    """A text without times and numbers of commits."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"^\d+(?=  TIME)", "COMMIT", text, flags=re.MULTILINE).rstrip()


def test_the_commands_that_mend_a_count_print_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_files("README.md", tmp_path, only={"topology.yaml", "wordcount.py"})
    uri = (tmp_path / "state").as_uri()
    run(parse(parse_yaml((tmp_path / "topology.yaml").read_text())), checkpoint=uri)
    text = (ROOT / "docs/operations.md").read_text()
    first = text.count("\n", 0, text.index("## A count that is wrong"))
    last = text.count("\n", 0, text.index("## Pause, suspend, delete"))
    shown = [b for b in blocks("docs/operations.md", "console") if first < b.line < last]
    done, commit = 0, ""
    for line, output in (one for block in shown for one in commands(block)):
        arguments = shlex.split(line)[1:]
        arguments = [commit if re.fullmatch("9", word) else word for word in arguments]
        result = CliRunner().invoke(main, arguments, prog_name="fulmen")
        assert result.exit_code == 0, result.output
        assert without_what_differs(result.stdout) == without_what_differs(output)
        commit = (re.findall(r"^commit (\d+) of", result.stderr) or [commit])[0]
        done += 1
    assert done == 6
