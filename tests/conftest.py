"""Marks by folder, one seed for all that is random, cells drawn from it, no silent skips in CI."""

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import core

from support.suite import changed_files, draws, reach

TESTS = Path(__file__).parent
MARK_OF_FOLDER = {"unit": None, "engine": "engine", "cluster": "cluster"}  # in the order they run
ROOT, UNIT = TESTS.parent, TESTS / "unit"
IN_CI = bool(os.environ.get("CI"))

# In CI another seed each day that has commits, which is printed; else the same one. Whoever runs a
# commit again runs the same. Given as FULMEN_SEED it repeats another run. It is in the environment
# for those that tests start: pytest-xdist's workers, drivers.
if IN_CI:
    os.environ.setdefault("FULMEN_SEED", str(draws.seed_of_the_day(ROOT)))

EXAMPLES = int(os.environ.get("FULMEN_EXAMPLES") or 30)
"""Of each property; where an example is a whole run, a test takes a part of them."""

# No deadlines: other processes' load must not decide about a test.
hypothesis.settings.register_profile("dev", derandomize=True, deadline=None, max_examples=EXAMPLES)
hypothesis.settings.register_profile(
    "ci",
    derandomize=False,
    database=None,
    deadline=None,
    max_examples=EXAMPLES,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# `make mutants`: a test has to fail, and nobody reads the smallest example with which it does.
hypothesis.settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=50,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("ci" if IN_CI else "dev")

if IN_CI:
    core.global_force_seed = int(os.environ["FULMEN_SEED"])  # as --hypothesis-seed does

# A shell's jobs in the background ignore it, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--drawn",
        action="store_true",
        help="of tests marked `matrix`, run only the share that FULMEN_SEED draws",
    )
    parser.addoption(
        "--reached",
        action="store_true",
        help="of unit tests, run only files that depend on what the working copy changes",
    )


def pytest_report_header():
    return f"seed: FULMEN_SEED={seed()}"


def seed():
    """What all that is random follows from."""
    return int(os.environ.get("FULMEN_SEED") or 0)


def folder_of(item):
    """The folder below tests/ that a test is in."""
    return item.path.relative_to(TESTS).parts[0]


def pytest_itemcollected(item):
    folder = folder_of(item)
    if folder not in MARK_OF_FOLDER:
        raise pytest.UsageError(
            f"{item.nodeid}: a test is in one of {sorted(MARK_OF_FOLDER)}, not in {folder!r}"
        )
    if mark := MARK_OF_FOLDER[folder]:
        item.add_marker(mark)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Imports and collected tests stay: to look for garbage among them was a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """What collection has made stays to the end: collectors of garbage need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    order = list(MARK_OF_FOLDER)
    items.sort(key=lambda item: order.index(folder_of(item)))
    if config.getoption("--drawn"):
        leave_out_what_is_not_drawn(config, items)


def leave_out_what_is_not_drawn(config, items):
    """Of each matrix, keep the tests of the cells that the seed draws."""
    matrices = {}
    for item in items:
        if mark := item.get_closest_marker("matrix"):
            test, _, case = item.nodeid.rstrip("]").partition("[")
            cell = f"{mark.kwargs.get('cell', '')} {case}".strip() or test
            matrix = matrices.setdefault(mark.kwargs.get("name", test), (mark.kwargs["share"], {}))
            matrix[1].setdefault(cell, []).append(item)
    left_out = {
        item
        for name, (share, cells) in matrices.items()
        for cell in set(cells) - draws.drawn(cells, share, f"{seed()} {name}")
        for item in cells[cell]
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


# ---- only what a change can reach ---------------------------------------------------------------

REACHED = pytest.StashKey[list[str] | None]()
"""The test files that `--reached` leaves, and the folders that they are in. None: all."""


KNOWN = "fulmen/reach"
"""Where pytest's cache has what files depend on."""


def reached(changed, known):
    """The test files that a change can reach, or None: all of them. And what says so.

    Args:
        changed: Paths of files, relative to the repository. None: nobody knows.
        known: See `reach`.
    """
    if not changed:
        why = "Nothing is changed" if changed is not None else "Without git nobody knows the change"
        return None, f"{why}: all test files are run."
    files = changed_files.texts(ROOT)
    every = sum(map(reach.is_test_file, files))
    found = reach.reached_tests(changed, files, known)
    names = sorted(changed)
    named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    count = every if found is None else len(found)
    return found, f"{named}: {count} of {every} test files can be reached."


def pytest_sessionstart(session):
    config = session.config
    config.stash[REACHED] = getattr(config, "workerinput", {}).get("reached")
    if config.getoption("--reached") and not hasattr(config, "workerinput"):
        known = config.cache.get(KNOWN, {}) if hasattr(config, "cache") else {}
        found, said = reached(changed_files.changed_files(ROOT), known)
        if hasattr(config, "cache"):
            config.cache.set(KNOWN, known)
        if found is not None:
            config.stash[REACHED] = sorted(found | {str(p) for f in found for p in Path(f).parents})
        config.get_terminal_writer().line(f"{said} `make check-all` runs all.")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Each of pytest-xdist's workers runs the same files."""
    node.workerinput["reached"] = node.config.stash[REACHED]


def pytest_ignore_collect(collection_path, config):
    """What is left out is not even imported."""
    left = config.stash[REACHED]
    if left is None or UNIT not in collection_path.parents:
        return None
    path = str(collection_path.relative_to(ROOT))
    if path in left or not (collection_path.is_dir() or reach.is_test_file(path)):
        return None
    return True


# ---- what did not run is said, and in CI it is a failure ---------------------------------------

DESELECTED = pytest.StashKey[dict[str, int]]()


def pytest_configure(config):
    config.stash[DESELECTED] = {}


def pytest_deselected(items):
    for item in items:
        counts = item.config.stash[DESELECTED]
        counts[folder_of(item)] = counts.get(folder_of(item), 0) + 1


def pytest_terminal_summary(terminalreporter, config):
    for folder, count in config.stash[DESELECTED].items():
        terminalreporter.write_line(f"not run, because not asked for: {count} in tests/{folder}")


def fail_if_skipped(report):
    """In CI a test that can't run is a test that nobody runs: turn a skip into a failure."""
    if IN_CI and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (a failure, since every selected test must run in CI)"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    return fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    return fail_if_skipped((yield))


@pytest.fixture(autouse=True)
def _recursion_limit():
    """Commands raise it for their process, which is that of the next tests here."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)
