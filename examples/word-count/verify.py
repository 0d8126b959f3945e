"""Compares the topology's counts with those of plain Python over the same files.

    fulmen state get CHECKPOINT count -o json | python verify.py FOLDER

Shares no code with the topology. Ends with 1 if any word differs.
"""

import json
import os
import re
import sys
from collections import Counter

SKIPPED = {"test", "tests", "site-packages", "dist-packages"}


def count_words(folder: str) -> Counter[str]:
    """How often each word is in the text files below a folder."""
    counts: Counter[str] = Counter()
    for parent, folders, names in os.walk(folder):
        folders[:] = set(folders) - SKIPPED
        for name in names:
            if name.endswith((".py", ".txt")):
                path = os.path.join(parent, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    counts.update(re.findall(r"\w+", file.read().lower()))
    return counts


def main() -> None:
    """Compare."""
    counted = {entry["key"]: entry["value"] for entry in json.load(sys.stdin)}
    expected = count_words(sys.argv[1])
    words = sorted(counted.keys() | expected.keys())
    wrong = [word for word in words if counted.get(word, 0) != expected[word]]
    for word in wrong[:20]:
        print(f"{word!r} was counted {counted.get(word, 0)} times, but is there {expected[word]}")
    if wrong:
        sys.exit(f"{len(wrong)} of {len(words)} words differ")
    print(f"All {len(words):,} words were counted right, {expected.total():,} in all.")


if __name__ == "__main__":
    main()
