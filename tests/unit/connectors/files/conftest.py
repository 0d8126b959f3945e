"""Files that spouts have open are closed after each test."""

import pytest

from support.connectors.file_spouts import SpoutLives


@pytest.fixture(autouse=True)
def _closed():
    yield
    SpoutLives.end_all()
