"""The recipes of the documentation: their files in a folder, with data, and what plain Python says.

A test runs the commands of a recipe's page and compares what they have written with the functions
here, which read the same data without Fulmen.
"""

import csv
import gzip
import re
import shutil
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from datetime import datetime

from support.docs.pages import ROOT, blocks, write_files
from support.docs.pages import commands as of_block
from support.docs.shown_commands import output_of
from support.servers.ports import free_port

FOLDER = ROOT / "docs" / "recipes"
JOB = re.compile(r"(.* \| )?fulmen run |python \w+\.py")
SAMPLES = ROOT / "tests" / "data" / "recipes"


def page(name):
    """The path of a recipe's page."""
    return f"docs/recipes/{name}.md"


def lay(name, folder, *files, data=SAMPLES):
    """Put the files of a recipe into a folder, with those of the data set that it reads."""
    write_files(page(name), folder)
    for file in files:
        shutil.copy(data / file, folder)


def read_flights(folder, *files, names):
    """Have files of a recipe read the flights instead of a smaller data set.

    Args:
        folder: Where its files are.
        files: Those that name the data.
        names: What the flights have in the place of each text.
    """
    for file in files:
        text = (folder / file).read_text(encoding="utf-8")
        for own, other in names.items():
            text = text.replace(own, other)
        (folder / file).write_text(text, encoding="utf-8")


def commands(name):
    """The command lines that a recipe's page shows, and what it says that they print."""
    return [pair for block in blocks(page(name), "console") for pair in of_block(block)]


def run(name):
    """Run the programs and topologies of a recipe in the current folder and in this process.

    Not those commands that only fetch data, or show what came of it.

    Returns:
        What the last one has printed; all of it, if the page shows a part.
    """
    lines = [line.partition(" | grep ")[0] for line, _ in commands(name) if JOB.match(line)]
    return [output_of(line) for line in lines][-1]


def rows(path):
    """The rows of a CSV file: mappings, in which None stands for NA."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {name: None if text == "NA" else text for name, text in row.items()}


def table_in(file, table):
    """The rows of a table in a file of SQLite, in their order."""
    with closing(sqlite3.connect(file)) as db:
        return sorted(db.execute(f"SELECT * FROM {table}"))


def delays(folder):
    """Airline, departed and cancelled flights and minutes, by airline."""
    names = {row["carrier"]: row["name"] for row in rows(folder / "airlines.csv")}
    counts = defaultdict(lambda: [0, 0, 0])
    for row in rows(folder / "flights.csv"):
        count, delay = counts[names[row["carrier"]]], row["dep_delay"]
        count[delay is None] += 1
        count[2] += int(delay or 0)
    return sorted((airline, *count) for airline, count in counts.items())


def planes(folder):
    """The planes as columns of a table have them."""
    kinds = {"year": int, "engines": int, "seats": int, "speed": float}
    return [
        {name: text if text is None else kinds.get(name, str)(text) for name, text in row.items()}
        for row in rows(folder / "planes.csv")
    ]


def fleet(folder):
    """Planes, seats and the oldest plane of each manufacturer, as text."""
    planes_of = defaultdict(list)
    for plane in planes(folder):
        planes_of[plane["manufacturer"]].append(plane)
    return {
        (
            maker,
            str(len(own)),
            str(sum(plane["seats"] for plane in own)),
            str(min((p["year"] for p in own if p["year"] is not None), default=None)),
        )
        for maker, own in planes_of.items()
    }


def zones(folder):
    """Airports, and the highest one, of each time zone, as text."""
    own = defaultdict(list)
    for row in rows(folder / "airports.csv"):
        zone = row["tzone"] if row["tzone"] not in (None, "\\N") else "unknown"
        own[zone].append((round(int(row["alt"]) * 0.3048), row["faa"]))
    return {(z, str(len(of)), max(of)[1], str(max(of)[0])) for z, of in own.items()}


def table(text):
    """The rows of the last table in what was printed."""
    lines = text.rpartition("\u2500")[2].splitlines()
    return {tuple(re.split(r" {2,}", line.strip())) for line in lines if line.strip()}


def gusts(folder):
    """The rows that the query selects, as text."""
    for row in rows(folder / "weather.csv"):
        gust = row["wind_gust"] and float(row["wind_gust"])
        if row["origin"] == "LGA" or (gust or 0) > 40:
            yield row["origin"], row["time_hour"], "NA" if gust is None else str(gust)


def installed(folder):
    """The packages that the log says were installed: when, name, section, architecture, version."""
    with open(folder / "sections.csv", newline="", encoding="utf-8") as file:
        sections = dict(csv.reader(file))
    for line in (folder / "dpkg.log").read_text(encoding="utf-8").splitlines():
        if " install " in line:
            day, clock, _, name, _, version = line.split()
            package, architecture = name.split(":")
            at = datetime.fromisoformat(f"{day} {clock}")
            yield at, package, sections.get(package), architecture, version


def words(files):
    """How often each word occurs in compressed files, whose lines that are no UTF-8 don't count."""
    counts = Counter()
    for path in files:
        with gzip.open(path, "rb") as file:
            for line in file:
                try:
                    counts.update(re.findall("[a-z]+", line.decode("utf-8").lower()))
                except UnicodeDecodeError:
                    continue
    return counts


def strongest(folder):
    """The strongest gust at each airport, and when it was first measured."""
    found = {}
    for row in rows(folder / "weather.csv"):
        gust = float(row["wind_gust"] or 0)
        if gust > found.get(row["origin"], (0, ""))[0]:
            found[row["origin"]] = gust, row["time_hour"].replace("Z", "+00:00")
    return [
        {"origin": origin, "gust": gust, "at": at} for origin, (gust, at) in sorted(found.items())
    ]


def free_ports(folder, file, *ports):
    """Have a recipe's topology listen at free ports instead of its own, and return these."""
    found = []
    while len(set(found)) < len(ports):
        found = [free_port() for _ in ports]
    text = (folder / file).read_text(encoding="utf-8")
    for own, free in zip(ports, found, strict=True):
        text = text.replace(f"port: {own}", f"port: {free}")
    (folder / file).write_text(text, encoding="utf-8")
    return found


def hours(folder):
    """Airport, time, temperature and gust of each hour, as the table has them; in order."""
    kinds = {"temp": float, "wind_gust": float}
    return sorted(
        (
            (
                row["origin"],
                datetime.fromisoformat(row["time_hour"]),
                *(row[name] and kind(row[name]) for name, kind in kinds.items()),
            )
            for row in rows(folder / "weather.csv")
        ),
        key=str,
    )


def hours_in_table(folder):
    """The same, from the recipe's table."""
    found = table_in(folder / "hours.db", "hours")
    return sorted(((one, datetime.fromisoformat(at), *rest) for one, at, *rest in found), key=str)
