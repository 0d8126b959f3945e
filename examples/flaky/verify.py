"""Compares the counts with what they must be.

    fulmen state get CHECKPOINT count -o json | python verify.py END

Ends with 1 if any is wrong.
"""

import json
import sys
from collections import Counter


def main() -> None:
    """Compare."""
    counted = {entry["key"]: entry["value"] for entry in json.load(sys.stdin)}
    expected = Counter(number % 10 for number in range(int(sys.argv[1])))
    if counted != expected:
        sys.exit(f"counted {dict(counted)}, but there are {dict(expected)}")
    print(f"All {expected.total():,} numbers were counted once.")


if __name__ == "__main__":
    main()
