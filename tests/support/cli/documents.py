"""Topologies as documents, and changes to them."""

from copy import deepcopy


class ABSENT:
    """In place of a value: there is to be none. A class, as copies of it are itself."""


WORD_COUNT = {
    "apiVersion": "fulmen.dev/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "word-count"},
    "spec": {
        "workers": 2,
        "spouts": [{"name": "sentences", "class": "support.parts.components.Sentences"}],
        "bolts": [
            {
                "name": "split",
                "class": "support.parts.components.Split",
                "parallelism": 2,
                "inputs": [{"from": "sentences", "grouping": {"type": "shuffle"}}],
            },
            {
                "name": "count",
                "class": "support.parts.components.Count",
                "parallelism": 2,
                "numTasks": 4,
                "inputs": [{"from": "split", "grouping": {"type": "fields", "fields": ["word"]}}],
            },
        ],
    },
}


def word_count(changes=None):
    """The word count's document, with some values changed.

    Args:
        changes: Values by path, such as `spec.bolts.1.name`; ABSENT removes what is there. A number
            that is one beyond the end of a list appends to it.
    """
    document = deepcopy(WORD_COUNT)
    for path, value in deepcopy(changes or {}).items():
        place = document
        *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        for part in parents:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
        if value is ABSENT:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return document
