"""The recipes of the documentation: their files in a folder, with data, and what plain Python says.

A test runs the commands of a recipe's page and compares what they have written with the functions
here, which read the same data without Fulmen.
"""

import csv
import shutil
from collections import defaultdict

from support.pages import ROOT, blocks, write_files
from support.pages import commands as of_block
from support.shown_commands import output_of

FOLDER = ROOT / "docs" / "recipes"
SAMPLES = ROOT / "tests" / "data" / "recipes"


def page(name):
    """The path of a recipe's page."""
    return f"docs/recipes/{name}.md"


def lay(name, folder, *files, data=SAMPLES):
    """Put the files of a recipe into a folder, with those of the data set that it reads."""
    write_files(page(name), folder)
    for file in files:
        shutil.copy(data / file, folder)


def commands(name):
    """The command lines that a recipe's page shows, and what it says that they print."""
    return [pair for block in blocks(page(name), "console") for pair in of_block(block)]


def run(name):
    """Run the commands of a recipe in the current folder and in this process.

    The last one only shows what came of it: tests read that themselves.
    """
    for line, _ in commands(name)[:-1]:
        output_of(line)


def rows(path):
    """The rows of a CSV file: mappings, in which None stands for NA."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield {name: None if text == "NA" else text for name, text in row.items()}


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


def gusts(folder):
    """The rows that the query selects, as text."""
    for row in rows(folder / "weather.csv"):
        gust = row["wind_gust"] and float(row["wind_gust"])
        if row["origin"] == "LGA" or (gust or 0) > 40:
            yield row["origin"], row["time_hour"], "NA" if gust is None else str(gust)
