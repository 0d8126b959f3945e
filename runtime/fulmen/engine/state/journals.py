"""The journals of a spout's or a bolt's task: under which names its parts are in the checkpoint."""

from typing import Final

STATE: Final = "state"
"""Keyed state; its segments are in journals whose names begin with this one's, and a dot."""
FAILURES: Final = "failures"
"""Keyed state of the engine: how often messages failed. In segments as well."""
DROPPED: Final = "dropped"
"""Keyed state of the engine: tuples that were dropped. In segments as well."""
PARTITIONS: Final = "partitions"
"""Keyed state of the engine: where transactions end in each partition. In segments as well."""
FIELDS: Final = "fields"
"""The durable fields of the instance, pickled."""
PENDING: Final = "pending"
"""The messages of a spout that are pending."""
ENGINE: Final = "engine"
"""What the engine has to know of the task besides."""
