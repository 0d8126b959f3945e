"""The documentation as a site."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.docs.pages import ROOT, pages


def build(folder, config=ROOT / "mkdocs.yml"):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(
        [*command, "--config-file", str(config), "--site-dir", str(folder)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_site_has_every_page_and_can_be_searched(tmp_path):
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    wanted = {str(Path(page).relative_to("docs").with_suffix(".html")) for page in pages("docs")}
    examples = {
        f"examples/{path.parent.name}.html" for path in (ROOT / "examples").glob("*/README.md")
    }
    assert wanted | examples | {"index.html", "examples/index.html"} <= found
    index = json.loads((tmp_path / "search" / "search_index.json").read_text())
    texts = {entry["location"].partition("#")[0]: entry["text"] for entry in index["docs"]}
    assert texts.keys() >= wanted
    page = (tmp_path / "index.html").read_text()
    assert 'href="operations.html"' in page
    assert 'src="images/page.png"' in page


@pytest.mark.slow
def test_a_wrong_link_and_a_wrong_anchor_fail_the_build(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# A\n\n[a](nowhere.md)\n\n[b](other.md#neverland)\n")
    (docs / "other.md").write_text("# B\n")
    content = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    del content["nav"]
    content |= {"docs_dir": str(docs), "hooks": []}  # which add pages
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(content))
    done = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert len(told) == 2
    assert "'nowhere.md'" in told[0]
    assert "#neverland" in told[1]
