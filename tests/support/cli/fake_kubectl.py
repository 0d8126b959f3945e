"""A `kubectl` that answers as it was told to, and notes what it was asked."""

import ast
import json
import os
import sys

# It starts hundreds of times, and imports nothing: values are files of Python's own literals.
SCRIPT = """#!{python} -IS
import sys
content = sys.stdin.read() if "-" in sys.argv else ""
with open({folder!r} + "/asked", "a+") as notes:
    notes.seek(0)
    earlier = notes.readlines()
    print(ascii([sys.argv[1:], content]), file=notes)
with open({folder!r} + "/answers") as file:
    answers = eval(file.read())
if isinstance(answers, dict):
    (key, *_) = [k for k in answers if set(k.split()) <= set(sys.argv)]
    turn = sum(set(key.split()) <= set(eval(line)[0]) for line in earlier)
    code, out, err = answers[key][min(turn, len(answers[key]) - 1)]
else:
    code, out, err = answers[len(earlier)]
sys.stdout.buffer.write(out.encode(errors="surrogateescape"))
sys.stderr.write(err)
sys.exit(code)
"""


class FakeKubectl:
    """The only program of that name on PATH."""

    def __init__(self, folder, monkeypatch):
        self._folder = folder
        program = folder / "kubectl"
        program.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        self.answer()

    def answer(self, *answers):
        """What it answers, one after another: an error's text, or a value that it prints."""
        self._will_answer(
            [(1, "", a) if isinstance(a, str) else (0, json.dumps(a), "") for a in answers]
        )

    def answer_each(self, answers):
        """What it answers to calls that have all words of a key, the first such key.

        Args:
            answers: Words of the call -> what it prints: text, or a value; `Fails` for an error; a
                list for one after another, of which the last one stays.
        """
        self._will_answer(
            {
                words: [_made(a) for a in (answer if isinstance(answer, list) else [answer])]
                for words, answer in answers.items()
            }
        )

    def _will_answer(self, made):
        (self._folder / "answers").write_text(ascii(made))

    @property
    def asked(self):
        """The arguments of every call, without what is in all of them."""
        return [[a for a in args if a != "--request-timeout=20s"] for args, _ in self._notes()]

    @property
    def given(self):
        """What the calls read that read something."""
        return [json.loads(content) for _, content in self._notes() if content]

    def _notes(self):
        return map(ast.literal_eval, (self._folder / "asked").read_text().splitlines())


class Fails(str):
    """What a kubectl says that ends with an error."""


def _made(answer):
    if isinstance(answer, Fails):
        return (1, "", answer)
    return (0, answer if isinstance(answer, str) else json.dumps(answer), "")


def topology(
    name="word-count", state="Active", generation=1, observed=None, status=None, uid="u-1", **spec
):
    """A Topology as the API server has it."""
    bolts = [
        {"name": "split", "parallelism": 2, "numTasks": 2},
        {"name": "count", "parallelism": 2},
    ]
    return {
        "metadata": {"name": name, "namespace": "blue", "uid": uid, "generation": generation},
        "spec": {"workers": 2, "spouts": [{"name": "sentences"}], "bolts": bolts, **spec},
        "status": {
            "state": state,
            "observedGeneration": generation if observed is None else observed,
            "components": [
                {"name": "sentences", "tasks": 1},
                {"name": "split", "tasks": 2},
                {"name": "count", "tasks": 4},
            ],
            **(status or {}),
        },
    }


def not_found(name="word-count", kind="topologies.fulmen.dev"):
    """What kubectl says if the API server has no such object."""
    return f'Error from server (NotFound): {kind} "{name}" not found\n'
