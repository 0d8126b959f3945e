"""What several tests with real servers use."""

import pytest

from support.s3 import running_s3


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory):
    """An S3 server for all tests of the session; each uses a prefix of its own."""
    with running_s3(tmp_path_factory.mktemp("s3")) as server:
        yield server
