"""Buckets of S3, Google Cloud Storage and Azure: how they are opened, and what errors say.

What an error means to who has asked, checkpoints and files each decide for themselves: a checkpoint
waits for rights that it had, and a source passes over an object that it may not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

STORES: Mapping[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
VARIABLES: Mapping[str, str] = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for a server other than"
    " Amazon's, AWS_ENDPOINT_URL (with AWS_ALLOW_HTTP=true for http)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the pod's workload identity",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, or the pod's workload identity",
}
"""The environment variables that count: the clouds' own tools read them too."""
NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")
NO_CREDENTIALS = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
"""Where a client looks last for credentials."""
_ANSWER = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)


def opened(
    scheme: str, bucket: str, prefix: str, timeouts: Mapping[str, str], retries: int, seconds: float
) -> ObjectStore:
    """A client, with credentials and endpoint from the environment. Nothing is requested yet.

    Raises:
        BaseError: The environment lacks what every request needs.
    """
    # Timeouts as config, since client_options would replace those from the environment.
    again = {"max_retries": retries, "retry_timeout": timedelta(seconds=seconds)}
    made: ObjectStore = STORES[scheme](
        bucket, prefix=prefix or None, config=timeouts, retry_config=again
    )
    return made


def gist(error: Exception, most: int) -> str:
    """Shorten a client's error to its own text and the server's answer, without pages of detail."""
    said, _, document = str(error).partition("\n\nDebug source")[0].partition("<?xml")
    if answer := _ANSWER.search(document):
        said = f"{said.rstrip(': ')}: {answer[1]}, {answer[2]}"
    return " ".join(said.split())[:most]
