"""Values of Python's own classes that state often has: written quickly, and read as they were."""

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, SafeUUID

import pytest

from fulmen.engine.state.pickling import dumps

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
NUMBER = 0x6F1C0DE5_0000_4000_8000_0123456789AB


class Named(UUID):
    """A class of an author's."""


@pytest.mark.parametrize(
    "value",
    [
        UUID(int=NUMBER),
        Named(int=NUMBER),
        Decimal("1.50"),
        NOW,
        NOW.date(),
        NOW.time(),
        timedelta(milliseconds=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_usual_value_is_read_as_it_was(value):
    found = pickle.loads(dumps([value, value], {}))
    assert found == [value, value]
    assert type(found[0]) is type(value)
    assert found[0] is found[1]


def test_a_uuid_still_knows_whether_it_was_made_safely():
    safe = UUID(int=NUMBER, is_safe=SafeUUID.safe)
    assert pickle.loads(dumps(safe, {})).is_safe is SafeUUID.safe


def test_a_uuid_takes_no_more_bytes_than_pickle_alone_needs():
    values = [UUID(int=NUMBER + n) for n in range(100)]
    assert len(dumps(values, {})) <= len(pickle.dumps(values, 5))
