"""Compares the tables with what they must be, and with each other.

    python verify.py FILE

Ends with 1 if anything is wrong.
"""

import sqlite3
import sys
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

from visits import VISITS, visits


def main() -> None:
    """Compare."""
    expected = set(visits(0, VISITS))
    with closing(sqlite3.connect(sys.argv[1])) as database:
        urls = {url for (url,) in database.execute("SELECT key FROM urls")}
        domains = dict(database.execute("SELECT key, value FROM domains ORDER BY key"))
    if urls != expected:
        sys.exit(f"{len(urls)} URLs are there, but there must be {len(expected)}")
    if domains != Counter(urlsplit(url).hostname for url in expected):
        sys.exit(f"the domains are counted wrong: {domains}")
    for domain, count in domains.items():
        print(f"{domain}  {count} URLs")
    print(f"All {len(urls):,} URLs are there once, and the domains agree with them.")


if __name__ == "__main__":
    main()
