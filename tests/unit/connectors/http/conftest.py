"""An endpoint for all tests of the folder."""

import pytest

from support.servers.scripted_endpoint import scripted_endpoint


@pytest.fixture(scope="session")
def own_endpoint():
    with scripted_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def endpoint(own_endpoint):
    own_endpoint.forget()
    return own_endpoint


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("fulmen.connectors.http.asking.FIRST_PAUSE", 0.001)
