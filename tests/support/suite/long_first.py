"""The order of test files of which several run at once: the longest begin first.

A long file that begins late runs on when all others have ended, on one core.
"""


def long_first(items, longest):
    """Sort the tests by their files: those named come first, in that order. The rest stays.

    Args:
        items: What pytest has collected.
        longest: Names of files.
    """
    places = {name: place for place, name in enumerate(longest)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
