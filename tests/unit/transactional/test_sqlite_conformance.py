"""Maps in SQLite are exact."""

import pytest

from fulmen.transactional import SqliteMap
from fulmen.transactional.conformance import CASES
from fulmen.transactional.stores.pools import close_all
from support.seeds import generator, several


@pytest.fixture(autouse=True)
def _no_connection_stays():
    yield
    close_all()


@pytest.mark.parametrize("seed", several(1))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_maps_in_sqlite_are_exact(case, seed, tmp_path):
    with generator(seed) as rng:
        case(lambda name, context, rule: SqliteMap(tmp_path / "db", name, context, rule=rule), rng)
