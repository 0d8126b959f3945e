"""What MkDocs calls while it builds the site: README and the examples' pages become pages of it.

Links from there, and to there, are made to fit. A link to any other file of the repository, which
is no page, becomes the file's name.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(\s*([^)\s#]+)(#[^)]*)?\)")


def pages() -> dict[str, str]:
    """The pages from outside of docs/: path in the repository -> path in the site."""
    found = {"README.md": "index.md", "examples/README.md": "examples/index.md"}
    for readme in sorted((ROOT / "examples").glob("*/README.md")):
        found[f"examples/{readme.parent.name}/README.md"] = f"examples/{readme.parent.name}.md"
    return found


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add those pages."""
    for source, place in pages().items():
        content = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The page's text, with links that fit the site."""
    places = {place: source for source, place in pages().items()}
    own = page.file.src_uri
    folder = posixpath.dirname(places.get(own, f"docs/{own}"))

    def fit(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups(default="")
        if re.match(r"\w+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        place = pages().get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not place:
            return text if text.strip("`") == path else f"{text} (`{path}`)"
        link = posixpath.relpath(place, posixpath.dirname(own) or ".")
        return f"{mark}[{text}]({link}{anchor})"

    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        part if part.lstrip().startswith("```") else LINK.sub(fit, part) for part in parts
    )
