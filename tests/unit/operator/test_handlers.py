"""What the operator does before it begins to watch."""

import asyncio

import kopf
import pytest

from fulmen_operator.cluster.api import ApiError
from fulmen_operator.handlers import must_be_served


class Server:
    def __init__(self, status):
        self.status = status

    async def call(self, method, path):
        assert (method, path) == ("GET", "/apis/fulmen.dev/v1alpha1")
        if self.status >= 400 or self.status == 0:
            raise ApiError(self.status, "no", path)
        return {}


def test_without_the_definition_it_ends_and_says_what_to_do():
    with pytest.raises(kopf.PermanentError, match="serves no topologies"):
        asyncio.run(must_be_served(Server(404)))


@pytest.mark.parametrize("status", [200, 500, 0])
def test_else_it_goes_on_whether_or_not_the_server_answers(status):
    asyncio.run(must_be_served(Server(status)))
