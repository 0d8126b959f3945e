"""The error for a database's client that is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from fulmen.errors import install
from fulmen.services.errors import StoreRefused


@contextmanager
def needs(where: str, extra: str) -> Iterator[None]:
    """Turn a failed import into a StoreRefused with the cure."""
    try:
        yield
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        raise StoreRefused(
            where,
            f"the Python package {missing.name!r} can't be imported ({missing})",
            f"Install it on every worker: {install(extra)}.",
        ) from error
