"""Whatever is in a file or behind `--set`, `validate` says that it is right, or what is wrong."""

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cli.documents import word_count
from support.suite import seeds

FULL = word_count(
    {
        "spec.ackers": 1,
        "spec.config": {"a": [1, {"b": None}], "c": 1.5, "d": True, "e": "text"},
        "spec.code": {"files": {"a.py": "x = 1\n"}},
        "spec.checkpoint": {"uri": "s3://a/b"},
        "spec.driver": {"podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {}}},
        "spec.worker": {
            "image": "a",
            "resources": {"limits": {"cpu": 1, "memory": "2Gi"}},
            "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
            "imagePullSecrets": [{"name": "a"}],
            "podTemplate": {"spec": {"containers": [{"name": "a", "env": []}]}},
        },
        "spec.spark": {"conf": {"spark.a": "b"}},
        "spec.restartNonce": 1,
        "spec.bolts.0.tickSeconds": 1,
        "spec.bolts.1.blocking": True,
    }
)
TEXTS = [
    yaml.safe_dump(word_count()),
    yaml.safe_dump(FULL),
    yaml.safe_dump(FULL).replace("- ", "-  "),
]

_BOMB = "&a0 [x, x]\n" + "\n".join(
    f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
)
PIECES = [
    *"[]{},:#&*!|>'\"%@`-? \n\t\\~=",
    *("!!bool x", "!!timestamp x", "!!timestamp 2024-01-01", "!!float ''", "!!int ''", "!!int x"),
    *("!!binary x", "!!binary aGk=", "!!set {a}", "!!set x", "!!omap [a: b]", "!!omap x"),
    "!!map x",
    *("!!pairs [a: b]", "!!seq x", "!!str [a]", "!!null x", "!!python/name:os.system", "!x y"),
    *('"\\ud800"', '"\\0"', '"\\udfff": 1', '"\\x00": a', '"\\u2028"', "\x85", "\u2028", "\ufeff"),
    *("\x00", "\x07", "\x1b[31m", "é", "\U0001f600", "%YAML 1.1", "---", "...", "- - - -"),
    *("9" * 4000, "-" + "9" * 5000, "0x" + "f" * 4000, "1" * 30, "1e999", "-.inf", ".nan", "0o17"),
    *("1:2:3", "12:30", "yes", "on", "y", "null", "~", "''", "[]", "{}", "-0", "2024-01-01"),
    *("[" * 1000, "{a: " * 1000, "- " * 1000, "[" * 50 + "]" * 50, "? " * 500, "[" * 99 + "]" * 99),
    *("&a [*a]", "&a {x: *a, z: [*a, *a]}", "*a", "&a", "<<: *a", "<<: 1", "<<: [1]", _BOMB),
    *("a" * 100_000, "? [a]\n: b", "? {a: b}\n: c", "1: 2", "true: 1", "null: 1", "1.5: a"),
    *("../x.py", "a/b.py", "/etc/passwd", "spark.x", "file:///x?y", "s3://", "file://"),
    "file:///%00",
    *("files: {}", "folder: .", 'folder: "\\0"', "configMap: a", "kind: Topology", "kind: Bolt"),
    *("__x", "custom", "direct", "fields"),
    *("support.parts.components", "support.parts.components.Count.x"),
    *("os.path.join", "sys.exit", "builtins.object", "builtins.type", "typing.Any"),
    *("abc.ABC", "enum.Enum", "fulmen.Spout", "fulmen.Bolt", "fulmen.CustomStreamGrouping"),
    *("gANjYnVpbHRpbnMKZXhpdApxAC4=", "1Ki", "1e3", "-1Gi", "10000000000000000000E", "0.0000001m"),
]  # fmt: skip
SIMPLE = [None, True, False, 0, 1, 2, -1, 100, 2**31, 2**53, 2**63, 10**40, 0.5, 1e300, "", []]
PATHS = [
    *("spec.workers", "spec.bolts[count].parallelism", "spec.bolts[0].inputs[0].grouping.type"),
    *("spec.config.a.b", "spec", "metadata.name", "spec.code.folder"),
    *("spec.spark.conf.a.b.c", "kind"),
    *("spec.worker.env[0].value", "spec.worker.podTemplate.spec.containers", "a", "", "."),
    *("[", "]"),
    *("spec.bolts[x]", "spec.bolts[-1]", "spec.bolts[²]"),
    *("spec.bolts[99999999999999999999]", "[0]"),
    *("spec.config" + "[a]" * 5000, "spec.config" + ".a" * 200, "spec..x", "spec.config.\udcff"),
    *("spec.bolts[0].config.x", "spec.worker.resources.limits.cpu", "status.x"),
    "spec.code.files.a",
]  # fmt: skip


def mutation(seed: int, folder: Path) -> list[str]:
    """Write a file that may be wrong, and return the arguments of `fulmen` to validate it."""
    choices = random.Random(seed)
    is_text = choices.random() < 0.6
    text = choices.choice(TEXTS) if is_text else _document(choices)
    for _ in range(choices.choice([1, 1, 1, 2, 3, 5]) if is_text else 0):
        text = _changed(text, choices)
    content = text.encode("utf-8", "surrogatepass")
    if choices.random() < 0.05:
        at = choices.randrange(len(content) + 1)
        content = content[:at] + choices.randbytes(choices.choice([1, 2, 8])) + content[at:]
    file = folder / choices.choice(["topology.yaml"] * 20 + ["topology", "t\udcff.yaml", "\n.yml"])
    file.write_bytes(content)
    name = str(file) if choices.random() < 0.98 else str(file) + choices.choice(["x", "/"])
    arguments = ["validate", name]
    if choices.random() < 0.5:
        arguments.append("--json")
    for _ in range(choices.choice([0, 0, 0, 1, 2])):
        path = choices.choice(PATHS)
        value = choices.choice([*PIECES, "3", "[" * 5000, "{a: [1, 2]}"])
        assignment = choices.choice([f"{path}={value}"] * 8 + [path, value])
        arguments += ["--set", assignment]
    return arguments


def _document(choices: random.Random) -> str:
    """A document, with values replaced, removed and added that another part of it may have."""
    document = copy.deepcopy(choices.choice([word_count(), FULL]))
    values = [value for _, _, value in _places(document)]
    for _ in range(choices.choice([1, 1, 2, 3, 6])):
        place, key, _ = choices.choice(list(_places(document)))
        value = copy.deepcopy(choices.choice([*SIMPLE, choices.choice(PIECES), *values]))
        match choices.choice(["replace", "replace", "remove", "add"]):
            case "replace":
                place[key] = value
            case "remove":
                del place[key]
            case _ if isinstance(place, dict):
                names = [
                    "instance",
                    *(name for _, name, _ in _places(FULL) if isinstance(name, str)),
                ]
                place[choices.choice([*names, *PIECES])] = value
            case _:
                place.insert(key, value)
        if not document:
            break
    return json.dumps(document)


def _places(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """(what is around it, its key or index, it) of everything in a value."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key, inner
            yield from _places(inner)


def _changed(text: str, choices: random.Random) -> str:
    """The text with a piece put in, taken out, doubled or put in the place of a value."""
    lines = text.split("\n")
    match choices.randrange(8):
        case 0 | 1 | 2:  # the value of a line
            at = choices.randrange(len(lines))
            head, colon, _ = lines[at].partition(":")
            lines[at] = f"{head}{colon or '- '} {choices.choice(PIECES)}"
            return "\n".join(lines)
        case 3:
            del lines[choices.randrange(len(lines))]
            return "\n".join(lines)
        case 4:
            lines.insert(choices.randrange(len(lines) + 1), choices.choice(lines))
            return "\n".join(lines)
        case 5:  # a line of its own, as deep as the one below it
            at = choices.randrange(len(lines))
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip(" -"))].replace("-", " ")
            lines.insert(at, f"{indent}{choices.choice(PIECES)}")
            return "\n".join(lines)
        case 6:
            at = choices.randrange(len(text) + 1)
            return text[:at] + choices.choice(PIECES) + text[at:]
        case _:
            start = choices.randrange(len(text) + 1)
            return text[:start] + text[start + choices.choice([1, 1, 2, 5, 20]) :]


MUTATIONS = int(os.environ.get("FULMEN_MUTATIONS") or 300)
"""How many are tried. Their seeds follow each other from FULMEN_SEED on."""


def tried(seeds, fulmen, folder):
    """What is wrong with the answers, by seed."""
    wrong = {}
    for seed in seeds:
        arguments = mutation(seed, folder)
        result = fulmen(*arguments)
        text = result.output
        if result.exit_code not in (0, 2) or "Traceback" in text or "pydantic" in text:
            wrong[seed] = f"exit code {result.exit_code}: {text[:300]}"
        elif "--json" in arguments:
            content = json.loads(result.stdout)
            if content["valid"] != (result.exit_code == 0):
                wrong[seed] = f"exit code {result.exit_code}, but valid is {content['valid']}"
    return wrong


def test_mutated_files_are_right_or_told_to_be_wrong(fulmen, tmp_path):
    assert tried(range(20), fulmen, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.timeout(300 + MUTATIONS / 10)
def test_many_mutated_files_are_right_or_told_to_be_wrong(fulmen, tmp_path):
    assert tried(seeds.several(MUTATIONS), fulmen, tmp_path) == {}
