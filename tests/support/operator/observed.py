"""A topology as the operator sees it."""

from datetime import UTC, datetime

from fulmen_operator.acceptance.sources import sources_in_parts, whole_source
from fulmen_operator.model import Observed
from support.cli.documents import word_count


def observed(changes=None, sources=(), **more):
    """The word count in the namespace `blue`, with changes by path, and what else is seen.

    Args:
        changes: By path.
        sources: The ConfigMaps that its code is in.
        more: What else is seen.
    """
    fixed = {"metadata.namespace": "blue", "metadata.uid": "u-1", "metadata.generation": 3}
    document = word_count({**fixed, **(changes or {})})
    in_parts = "configMaps" in document["spec"].get("code", {})
    code = sources_in_parts(sources) if in_parts else whole_source(sources)
    return Observed(document, datetime(2026, 1, 1, tzinfo=UTC), sources=code, **more)
