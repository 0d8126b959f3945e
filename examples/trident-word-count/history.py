"""The counts that a word has had: `python history.py FILE WORD`."""

import sqlite3
import sys
from contextlib import closing


def main() -> None:
    """Print them, a line for each transaction with the word."""
    file, word = sys.argv[1:]
    with closing(sqlite3.connect(file)) as database:
        counts = 'SELECT "count" FROM history WHERE word = ? ORDER BY rowid'
        for (count,) in database.execute(counts, [word]):
            print(count)


if __name__ == "__main__":
    main()
