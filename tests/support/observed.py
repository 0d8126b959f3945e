"""A topology as the operator sees it."""

from datetime import UTC, datetime

from fulmen_operator.model import Observed
from support.documents import word_count


def observed(changes=None, **more):
    """The word count in the namespace `blue`, with changes by path, and what else is seen."""
    fixed = {"metadata.namespace": "blue", "metadata.uid": "u-1", "metadata.generation": 3}
    return Observed(
        word_count({**fixed, **(changes or {})}), datetime(2026, 1, 1, tzinfo=UTC), **more
    )
