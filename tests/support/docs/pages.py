"""Pages of the documentation: their code blocks, and the files that these stand for."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INDENTED = r"^    +((?:make|fulmen|\.venv/bin/\w+) .*)$"
_FILE_NAME = re.compile(r"# (\w[\w.-]*\.(?:py|yaml))\n")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: The page's path.
        line: Where it begins.
        language: What stands behind the backticks.
        text: Without its indentation.
        file: The name in its first line, if that is a comment with the name of a file.
    """

    page: str
    line: int
    language: str
    text: str
    file: str | None

    def __str__(self):
        return f"{self.page}:{self.line}"


def pages(folder):
    """The paths of all pages in a folder and below it."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.md"))


def blocks(page, language=None):
    """The code blocks of a page, or of all pages in a folder; or only those in one language."""
    if (ROOT / page).is_dir():
        return [block for each in pages(page) for block in blocks(each, language)]
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        indent, kind, content = match.groups()
        content = re.sub(f"^{indent}", "", content, flags=re.MULTILINE)
        name = _FILE_NAME.match(content)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, kind, content, name and name[1]))
    return [block for block in found if language in (None, block.language)]


def commands(block):
    """The command lines of a console block, each with the output that is shown for it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        yield line, output


def indented_commands(page):
    """The words of each command in a block that is only indented."""
    shown = re.findall(_INDENTED, without_blocks(page), re.MULTILINE)
    for text in shown:
        for command in text.partition("  #")[0].split(" && "):
            yield shlex.split(command)


def write_files(page, folder, only=None):
    """Write the page's files into a folder: blocks of the same name make one file together.

    Python without a name is a file of its own, named after its page and line.

    Args:
        page: The page's path, or the path of a folder with pages.
        folder: An existing one.
        only: The names of the files to write. Default: all.

    Returns:
        The blocks of each file.
    """
    files = {}
    for block in blocks(page):
        if block.language == "python":
            name = block.file or f"{Path(block.page).stem}_line_{block.line}.py"
            files.setdefault(name, []).append(block)
        elif block.file:
            files.setdefault(block.file, []).append(block)
    files = {name: parts for name, parts in files.items() if only is None or name in only}
    for name, parts in files.items():
        (folder / name).write_text("\n\n".join(part.text for part in parts), encoding="utf-8")
    return files


def without_blocks(page):
    """The text of a page without its code blocks."""
    return _FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))


def links(page):
    """The targets of the page's links and pictures, code left out."""
    text = re.sub(r"`[^`\n]+`", "", without_blocks(page))
    return re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'src="([^"]+)"', text)


def anchors(page):
    """What can be linked to within a page, as GitHub names headings."""
    headings = re.findall(r"^#+ +(.*?) *$", without_blocks(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}
