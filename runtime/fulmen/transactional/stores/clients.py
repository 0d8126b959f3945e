"""What is said if the client of a database is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from fulmen.errors import install
from fulmen.transactional.errors import StoreRefused


@contextmanager
def needs(where: str, package: str, extra: str) -> Iterator[None]:
    """Turn a failed import into a StoreRefused with the cure.

    Args:
        where: Which map.
        package: The client's name as a module.
        extra: Fulmen's extra that has it.
    """
    try:
        yield
    except ImportError as error:
        raise StoreRefused(
            where,
            f"the Python package {package!r} can't be imported ({error})",
            f"Install it on every worker: {install(extra)}.",
        ) from error
