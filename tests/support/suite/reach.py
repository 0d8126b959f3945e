"""Which test files a change can reach: those that depend on a changed file, directly or not.

A file depends on

- the modules that it imports, anywhere in it, and the packages that these are in;
- the modules whose dotted names are in its strings, as in `"fulmen.windows.Aggregate"`, and all of
  a package that it lists, or from which it imports by names that it puts together;
- if it is a test, a script or a benchmark: the files that its strings name, and all files of the
  folders that they name. If it is in a package: those files of the package that it names and that
  are no Python;
- if it is a test: `conftest.py`.

So a test file that is left out loads no changed module and reads no changed file. Many that are run
could be left out, as to import a module is not to use it. What is not seen are files that are found
without a string that is their name or that of a folder they are in.

Pure: files are given with their texts. `changed_files` asks git for them.
"""

import ast
import hashlib
import itertools
import re
from dataclasses import astuple, dataclass
from pathlib import PurePosixPath

PACKAGES = ("runtime", "operator")
"""Where the packages are, which import from one another only."""

ROOTS = (*PACKAGES, "tests", "")
"""What names of modules are relative to elsewhere, besides a file's own folder."""

NAMING_FILES = ("tests/", "scripts/", "benchmarks/")
"""What uses any file of the repository. Packages have their own, examples stand for users' code."""

EVERYTHING = frozenset(
    {
        "Makefile",
        "constraints.txt",
        "operator/pyproject.toml",
        "pyproject.toml",
        "scripts/bootstrap",
        "tests/conftest.py",
        "tests/support/suite/changed_files.py",
        "tests/support/suite/reach.py",
    }
)
"""What concerns all tests: how they are run, with which packages, and what chooses them.

These name files which they don't read.
"""

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_BEGINNING = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+)\.$")
_FROM = re.compile(r"\bfrom\s+([\w.]+)\s+import\s+\(?([\w\s,]+)")
_PATH = re.compile(r"[\w.*{}-]+(?:/[\w.*{}-]*)+")
_WORD = re.compile(r"[\w.-]+")


def reached_tests(changed, files, known=None):
    """The files of unit tests that depend on a changed file.

    Args:
        changed: Paths, relative to the repository; also of files that are there no more.
        files: The text of each file of the repository by its path, "" for what is no text.
        known: What an earlier call has left in it, so that only other texts are parsed. JSON can
            keep it.

    Returns:
        Paths. None: all of them, as a changed file concerns all tests, or nobody knows which.
    """
    changed = set(changed)
    users = users_of(dict.fromkeys(changed, "") | dict(files), known)
    reached = set()
    for path in changed:
        found = _depending(path, users)
        if path in EVERYTHING or (found == {path} and not _may_be_unknown(path)):
            return None
        reached |= found
    return {path for path in reached & files.keys() if is_test_file(path)}


def is_test_file(path):
    """Whether there are unit tests in it."""
    return path.startswith("tests/unit/") and _has_tests(path)


def _has_tests(path):
    return PurePosixPath(path).match("test_*.py")


def _may_be_unknown(path):
    """Whether it concerns no unit test if no other file depends on it: a test, or mere prose."""
    return _has_tests(path) or (path.endswith(".md") and not path.startswith(PACKAGES))


def users_of(files, known=None):
    """The files that depend on each, directly. Arguments as above."""
    tree = _Tree(files, _all_facts(files, {} if known is None else known))
    users = {}
    for path in files:
        for used in tree.used_by(path):
            users.setdefault(used, set()).add(path)
        for user in tree.readers(path):
            users.setdefault(path, set()).add(user)
    return users


def _depending(changed, users):
    """A file, and all that depend on it."""
    found = {changed}
    waiting = [*users.get(changed, ())]
    while waiting:
        if (path := waiting.pop()) not in found:
            found.add(path)
            if not is_test_file(path):  # its text may be read, but nobody imports it
                waiting += users.get(path, ())
    return found


@dataclass(frozen=True)
class _Facts:
    """What one file names."""

    imports: frozenset[str] = frozenset()
    dotted: frozenset[str] = frozenset()
    """Dotted names in strings, in a text that is no Python anywhere in it."""
    packages: frozenset[str] = frozenset()
    """Those whose modules it lists."""
    beginnings: frozenset[str] = frozenset()
    """What strings end with that names are put together from, as `f"fulmen.connectors.{name}"`."""
    words: frozenset[str] = frozenset()
    """Strings that are one word, as names of files and folders are."""
    paths: frozenset[str] = frozenset()
    """What looks like a path in strings."""
    parts: frozenset[str] = frozenset()
    """The words, and what the paths consist of."""


class _Tree:
    """All files, and what they depend on."""

    def __init__(self, files, facts):
        self.files = files
        self.facts = facts
        self.below = {}
        """The files below each folder, at any depth."""
        self.modules = {}
        """Files by what imports call them: paths without `.py` or `/__init__.py`."""
        for path in files:
            for folder in _folders(path):
                self.below.setdefault(folder, []).append(path)
            if path.endswith(".py"):
                self.modules[path.removesuffix(".py").removesuffix("/__init__")] = path

    def used_by(self, path):
        """What a file depends on, without the data of packages."""
        facts = self.facts[path]
        roots = (*ROOTS, path.rpartition("/")[0])
        if path.startswith(PACKAGES):
            roots = PACKAGES
        elif not path.endswith(".py"):  # its words are no names of scripts or of tests
            roots = (*PACKAGES, path.rpartition("/")[0])
        used = self._modules(facts.imports | facts.dotted | facts.words, roots)
        packages = facts.packages
        # A package's own code compares names with such beginnings as well.
        if roots != PACKAGES or any(name.startswith("importlib") for name in facts.imports):
            packages |= facts.beginnings
        for package, root in itertools.product(packages, roots):
            used.update(self.below.get(_join(root, *package.split(".")), ()))
        if path.startswith(NAMING_FILES) and path not in EVERYTHING:
            used |= self._named(facts, path)
        if is_test_file(path):
            used |= {f"{folder}/conftest.py" for folder in _folders(path)} & self.files.keys()
        return used

    def readers(self, path):
        """Of a package's file that is no Python: the modules that name it, or else the package.

        A program is started by who names its path, and read by nobody.
        """
        package = next((f for f in _folders(path) if f"{f}/__init__.py" in self.files), None)
        if package is None or path.endswith(".py") or self.files[path].startswith("#!"):
            return set()
        first = path.removeprefix(f"{package}/").partition("/")[0]
        names = {first, PurePosixPath(first).stem, PurePosixPath(path).name}
        return {
            file
            for file in self.below[package]
            if file.endswith(".py") and not names.isdisjoint(self.facts[file].parts)
        } or {f"{package}/__init__.py"}

    def _modules(self, names, roots):
        """The modules that dotted names begin with, and the packages that these are in."""
        used = set()
        for name, root in itertools.product(names, set(roots)):
            at = root
            for part in name.split("."):
                at = _join(at, part)
                if at in self.modules:
                    used.add(self.modules[at])
                elif at not in self.below:
                    break
            else:
                if (main := f"{at}/__main__") in self.modules:  # python -m NAME
                    used.add(self.modules[main])
        return used

    def _named(self, facts, path):
        """The files that strings name, and those of folders that they name."""
        used = set()
        for word in facts.words:
            used |= self._at(word)
            for folder in _folders(path):
                beside = self._at(_join(folder, word))
                if not any(map(_has_tests, beside)):  # "engine" means no folder of tests
                    used |= beside
        for named in facts.paths:
            places = itertools.chain([named], _folders(named))
            used |= next(filter(None, map(self._at, places)), set())
        return used

    def _at(self, path):
        return {path} if path in self.files else set(self.below.get(path, ()))


def _folders(path):
    """The folders that a path is in, the innermost first."""
    while path := path.rpartition("/")[0]:
        yield path


def _join(*parts):
    return "/".join(part for part in parts if part)


def _all_facts(files, known):
    """The facts of each file; `known` has those that were known, and then those of these files."""
    rules = _digest(files.get("tests/support/suite/reach.py", ""))
    facts, kept = {}, {}
    for path, text in files.items():
        key = f"{rules} {PurePosixPath(path).suffix} {_digest(text)}"
        found = known.get(key)
        facts[path] = _Facts(*map(frozenset, found)) if found else _facts(path, text)
        kept[key] = found or [sorted(names) for names in astuple(facts[path])]
    known.clear()
    known.update(kept)
    return facts


def _digest(text):
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _facts(path, text):
    return _facts_of_python(text) if path.endswith(".py") else _Facts(dotted=_names_in(text))


def _names_in(text):
    """Dotted names, and what imports within the text import."""
    imported = (
        f"{module}.{name}" for module, names in _FROM.findall(text) for name in _WORD.findall(names)
    )
    return frozenset({*_DOTTED.findall(text), *imported})


def _facts_of_python(text):
    try:
        waiting = [ast.parse(text)]
    except SyntaxError:
        return _Facts()  # who imports it is run, and fails
    imports = set()
    strings = set()
    packages = set()
    while waiting:  # all but docstrings
        node = waiting.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                strings.add(node.value)
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            if isinstance(node, ast.Attribute) and node.attr == "__path__":
                packages.add(ast.unparse(node.value))
            waiting += ast.iter_child_nodes(node)
    whole = "\n".join(strings)
    words = frozenset(string for string in strings if _WORD.fullmatch(string))
    paths = frozenset(_PATH.findall(whole))
    return _Facts(
        imports=frozenset(imports),
        dotted=_names_in(whole),
        packages=frozenset(packages),
        beginnings=frozenset(m[1] for string in strings if (m := _BEGINNING.search(string))),
        words=words,
        paths=paths,
        parts=words.union(*(path.split("/") for path in paths)),
    )
