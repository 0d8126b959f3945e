"""`python -m fulmen_operator`: runs the operator until it is told to end."""

import logging
import os

import kopf

from fulmen.topology.reading.yaml_limits import allow_deep_objects
from fulmen_operator import handlers
from fulmen_operator.settings import Settings


def main() -> None:
    """Run the operator, with settings from the environment."""
    allow_deep_objects()
    settings = Settings.from_environment(os.environ)
    log_format = kopf.LogFormat.JSON if settings.json_logs else kopf.LogFormat.FULL
    kopf.configure(log_format=log_format)
    for name in ("kopf.objects", "kopf.activities"):
        logging.getLogger(name).setLevel(logging.WARNING)  # what they say is said already
    kopf.run(
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        memo=handlers.Running(settings),
    )


if __name__ == "__main__":
    main()
