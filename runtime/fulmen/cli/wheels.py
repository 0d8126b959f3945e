"""The packages that a project asks for, as wheels for the image: downloaded with pip, and unpacked.

pip is told that the image's own packages are there already, by an empty wheel for each: so it
resolves what is missing against the versions that the image has, and downloads nothing twice.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import metadata, version
from pathlib import Path
from typing import Any, Final

from fulmen.cli.bad_input import BadInput
from fulmen.own_files import PrivateFolder
from fulmen.topology.code.packages import MADE_FOR_FILE, MadeFor, image_packages, normalized

REQUIREMENTS: Final = "requirements.txt"
PROJECT: Final = "pyproject.toml"
PYTHON: Final = "3.11"
"""The image's."""
MACHINES: Final = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""The platforms that there are, and their processors as Python calls them."""
GLIBC: Final = 36
"""The minor version of the image's C library."""
_OF_IMAGE: Final = "+fulmen"
"""The end of the versions of the empty wheels, which pip shows if they do not fit."""
_HASH: Final = re.compile(r"(?:^|\s)--hash[ =]")
_COMMENT: Final = re.compile(r"(?:^|\s+)#.*")
_FILE_OPTION: Final = re.compile(
    r"(?P<option>-r|--requirement|-c|--constraint|-f|--find-links)(?:\s*=\s*|\s*)(?P<file>\S.*)"
)
_SOURCE: Final = re.compile(
    r"(?:-e\b|--editable\b|(?:[^-\s]\S*\s*@\s*)?(?:(?:git|hg|svn|bzr)\+|"
    r"(?:https?:|file:|[./])(?!\S*\.whl(?:[\s;#?]|$)))).*"
)
"""What is asked for by its place, and is no wheel: pip leaves it out, or writes its source."""
_USER: Final = re.compile(r"(?<=://)([^/?#\s]+|[^/?#\s:]*:\S+)@")
"""Of a URL: a name, a password, or a token."""
_BROKEN: Final = re.compile(r"after connection broken by (.*)")
_PINNED: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*])?\s*(?:==\s*([^\s;]+))?")


@dataclass(frozen=True)
class Target:
    """The Python and the platform, one of `MACHINES`, that wheels are for."""

    python: str = PYTHON
    platform: str = "linux/amd64"


def requirements_in(folders: Sequence[Path]) -> Path | None:
    """The file that says which packages a project needs: the first there is in these folders."""
    files = (folder.resolve() / name for folder in folders for name in (REQUIREMENTS, PROJECT))
    return next((file for file in files if file.is_file()), None)


def requirements_of(folders: Sequence[Path]) -> Path:
    """Find the requirements. Raises BadInput if there is none."""
    found = requirements_in(folders)
    if found is None:
        places = " or ".join(dict.fromkeys(f"'{folder.resolve()}'" for folder in folders))
        raise BadInput(f"--wheels: there is no {REQUIREMENTS} or {PROJECT} in {places}.")
    return found


def unpack_wheels(requirements: Path, into: Path, target: Target) -> MadeFor:
    """Write the packages that are asked for into a folder, as installed; not what the image has."""
    with PrivateFolder("wheels") as work:
        wheels = [
            wheel
            for wheel in _downloaded(requirements, work.path, target)
            if _OF_IMAGE not in wheel.name
        ]
        for wheel in wheels:
            _unpack(wheel, into)
        made_for = _made_for(wheels, target)
    if wheels:
        (into / MADE_FOR_FILE).write_text(made_for.to_json(), encoding="utf-8")
    return made_for


def _downloaded(requirements: Path, work: Path, target: Target) -> list[Path]:
    file, options = requirements.resolve(), []  # pip is called in its folder
    asked = work / "asked"  # nothing else is there that a relative folder could mean
    asked.mkdir()
    is_project = requirements.suffix == ".toml"
    lines = _needed_by(requirements) if is_project else _lines_of(requirements)
    _refuse_sources(requirements, lines)
    is_hashed = not is_project and any(_HASH.search(line) for line in lines)
    if is_project:
        file = _written(asked / REQUIREMENTS, "\n".join(lines))
    elif is_hashed:  # pip asks for hashes of all there is, and the empty wheels have none
        file = _written(asked / REQUIREMENTS, "\n".join(_without_image(requirements, lines)))
        options = ["--require-hashes", "--no-deps"]
    if not is_hashed:
        stubs = _stubs(work)
        pinned = "\n".join(f"{name}=={version}" for name, version in stubs.items())
        constraints = _written(work / "constraints.txt", pinned)
        options = ["--find-links", str(work), "--constraint", str(constraints)]
    found = work / "wheels"
    found.mkdir()
    _pip(requirements, ["--dest", str(found), *options, *_tags(target), "--requirement", str(file)])
    files = sorted(found.iterdir())
    others = [path.name for path in files if path.suffix != ".whl"]
    if others:  # what a package asks for by its place
        raise BadInput(f"--wheels: pip found no wheel, but {', '.join(others)}. {_MAKE_WHEELS}")
    return files


_MAKE_WHEELS: Final = (
    "Make a wheel of it (`pip wheel --no-deps --wheel-dir wheels PLACE`), add a line"
    " `--find-links ./wheels`, and ask for it by its name. The project itself needs no line: its"
    " code goes along."
)


def _masked(text: str) -> str:
    return _USER.sub("***@", text)


def _refuse_sources(requirements: Path, lines: Iterable[str]) -> None:
    wrong = [_masked(line) for line in lines if _SOURCE.fullmatch(line)]
    if wrong:
        raise BadInput(
            f"--wheels: '{requirements}' asks for what is no wheel: {', '.join(wrong)}."
            f" {_MAKE_WHEELS}"
        )


def _pip(requirements: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--no-input", *arguments],
        cwd=requirements.resolve().parent,  # folders in the file may be relative
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise BadInput(f"--wheels needs pip, which {sys.executable} does not have: install it.")
    _, caused, conflict = done.stdout.partition("The conflict is caused by:")
    lines = f"{done.stderr}\n{caused}{conflict}".splitlines()
    told = [
        line.strip().removeprefix("ERROR: ")
        for line in lines
        if line.strip() and not line.startswith("WARNING")
    ]
    told += list(dict.fromkeys(_BROKEN.findall(done.stderr)))[:1]
    cure = (
        f" What ends in {_OF_IMAGE} is in Fulmen's image, in that version: ask for the same, or"
        " leave the version out."
    )
    raise BadInput(
        f"--wheels: pip can't download wheels for '{requirements}': "
        + _masked(" ".join(told))[:2000]
        + (cure if any(_OF_IMAGE in line for line in told) else "")
    )


def _tags(target: Target) -> list[str]:
    """The platforms whose wheels can be used there, the newest first, and no other wheels."""
    machine = MACHINES[target.platform]
    old = ["manylinux2014"] + (["manylinux2010", "manylinux1"] if machine == "x86_64" else [])
    kinds = [*(f"manylinux_2_{minor}" for minor in range(GLIBC, 4, -1)), *old, "linux"]
    platforms = [option for kind in kinds for option in ("--platform", f"{kind}_{machine}")]
    version = ["--python-version", target.python, "--implementation", "cp"]
    return ["--only-binary", ":all:", *version, *platforms]


def _stubs(folder: Path) -> Mapping[str, str]:
    """Write a wheel without content for each package of the image. Returns their versions."""
    packages = {**image_packages(), "fulmen": version("fulmen")}
    extras = metadata("fulmen").get_all("Provides-Extra") or []
    versions = {name: f"{found}{_OF_IMAGE}" for name, found in packages.items()}
    for name, stub in versions.items():
        stem = f"{name.replace('-', '_')}-{stub}"
        provided = "".join(f"Provides-Extra: {extra}\n" for extra in extras if name == "fulmen")
        with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
            head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {stub}\n"
            wheel.writestr(f"{stem}.dist-info/METADATA", head + provided)
            tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{stem}.dist-info/WHEEL", tags)
            wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return versions


def requirement_files(requirements: Path) -> list[Path]:
    """A requirements.txt, and the files that it takes in by `-r` and `-c`, and they by theirs."""
    found: list[Path] = []
    _lines_of(requirements, found)
    return found


def _lines_of(file: Path, seen: "list[Path] | None" = None) -> list[str]:
    """The lines of a requirements.txt and of what it takes in, with absolute paths, no comments."""
    seen = [] if seen is None else seen
    seen.append(file.resolve())
    lines: list[str] = []
    for raw in _text_of(file).replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", raw).strip()
        match = _FILE_OPTION.fullmatch(line)
        named = (file.parent / match["file"].strip("'\"")).resolve() if match else None
        if match is None or named is None or "://" in match["file"]:
            lines += [line] if line else []
        elif match["option"] in ("-r", "--requirement"):
            lines += _lines_of(named, seen) if named not in seen else []
        elif match["option"] in ("-f", "--find-links") and not named.exists():
            lines.append(line)
        else:
            if match["option"] in ("-c", "--constraint") and named not in seen:
                _lines_of(named, seen)
            lines.append(f"{match['option']} {shlex.quote(str(named))}")
    return lines


def _without_image(requirements: Path, lines: Iterable[str]) -> Iterator[str]:
    """The lines of a file with hashes, but for packages that the image has in that version."""
    has = {**image_packages(), "fulmen": version("fulmen")}
    wrong = []
    for line in lines:
        match = _PINNED.match(line)
        name = normalized(match[1]) if match else ""
        if match is None or name not in has:
            yield line
        elif match[2] != has[name]:
            wrong.append(f"{name} {match[2]} (the image: {has[name]})")
    if wrong:
        raise BadInput(
            f"--wheels: '{requirements}' asks for other versions of packages that Fulmen's image"
            f" has: {', '.join(wrong)}. Ask for the image's."
        )


def dependencies_in(project: Path) -> list[str] | None:
    """The dependencies in a pyproject.toml; None: it has no list of them, as one for tools only."""
    try:
        content = tomllib.loads(_text_of(project))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"'{project}' can't be read: {error}.") from error
    table = content.get("project", {})
    found = table.get("dependencies") if isinstance(table, dict) else table
    if found is None and ("dependencies" in table.get("dynamic", ()) or _is_for_poetry(content)):
        raise BadInput(f"'{project}' has no project.dependencies. {_WRITE_THEM}")
    if found is not None and not (
        isinstance(found, list) and all(isinstance(x, str) for x in found)
    ):
        raise BadInput(f"'{project}': project.dependencies is not a list of texts.")
    return found


_WRITE_THEM: Final = f"Write them there, or into a {REQUIREMENTS}."


def _is_for_poetry(content: Mapping[str, Any]) -> bool:
    return "dependencies" in content.get("tool", {}).get("poetry", {})


def _needed_by(project: Path) -> list[str]:
    found = dependencies_in(project)
    if found is None:
        raise BadInput(f"'{project}' has no project.dependencies. {_WRITE_THEM}")
    return found


def _unpack(wheel: Path, into: Path) -> None:
    """Write a wheel as pip installs it, but for scripts and what is outside of Python's folders."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)  # zipfile itself keeps names inside of the folder
    for data in into.glob("*.data"):
        for kind in ("purelib", "platlib"):
            _merge(data / kind, into)
        shutil.rmtree(data)


def _merge(folder: Path, into: Path) -> None:
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        target = into / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.replace(target)


def _made_for(wheels: Iterable[Path], target: Target) -> MadeFor:
    """Read the names of wheels: NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl."""
    parts = [wheel.stem.split("-") for wheel in wheels]
    return MadeFor(
        python=target.python if any(part[-2] not in ("none", "abi3") for part in parts) else "",
        machine=MACHINES[target.platform] if any(part[-1] != "any" for part in parts) else "",
        versions={normalized(part[0]): part[1] for part in parts},
    )


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"'{file}' can't be read: {error}.") from error


def _written(file: Path, text: str) -> Path:
    file.write_text(text + "\n", encoding="utf-8")
    return file
