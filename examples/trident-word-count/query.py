"""How often some words have come together: `python query.py FILE "WORDS"`."""

import sqlite3
import sys
from contextlib import closing


def main() -> None:
    """Print the sum of their counts."""
    file, args = sys.argv[1:]
    with closing(sqlite3.connect(file)) as database:
        counts = dict(database.execute("SELECT key, value FROM counts"))
    print(sum(counts[word] for word in args.split() if word in counts))


if __name__ == "__main__":
    main()
