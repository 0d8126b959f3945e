"""Prints a table that a committer has written: `python show.py FILE TABLE`."""

import sqlite3
import sys
from contextlib import closing


def main() -> None:
    """Print it: key, value, and the transaction that has changed the value last."""
    file, table = sys.argv[1:]
    with closing(sqlite3.connect(file)) as database:
        for key, value, txid in database.execute(
            f'SELECT key, value, txid FROM "{table}" ORDER BY key'
        ):
            print(f"{key}  {value}  transaction {txid}")


if __name__ == "__main__":
    main()
