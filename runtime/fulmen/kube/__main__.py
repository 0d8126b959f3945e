"""Runs the containers of a topology's pods: `python -m fulmen.kube driver` or `preflight`.

The third kind of container, a worker, is Java: see `entrypoint`.
"""

import os
import sys

from fulmen.kube.container import logs
from fulmen.kube.container.ending import write_ended
from fulmen.kube.contract import DRIVER, DRIVER_COMMAND, EXECUTOR_COMMAND, PREFLIGHT_COMMAND, WORKER
from fulmen.kube.contract.endings import Ended
from fulmen.kube.driver.pod import drive
from fulmen.kube.preflight import preflight
from fulmen.topology.reading.yaml_limits import allow_deep_objects


def main() -> int:
    """Run what the first argument says, leave the termination message, return the exit code."""
    logs.set_up()
    allow_deep_objects()
    match sys.argv[1:]:
        case [command] if command == DRIVER_COMMAND:
            code, ended = drive(os.environ)
        case [command] if command == PREFLIGHT_COMMAND:
            code, ended = preflight()
        case [command, host] if command == PREFLIGHT_COMMAND and host in (DRIVER, WORKER):
            code, ended = preflight(opens=host)
        case _:
            commands = f"{DRIVER_COMMAND}, {PREFLIGHT_COMMAND} or {EXECUTOR_COMMAND}"
            code, ended = 1, Ended(reason="Error", message=f"the argument must be {commands}")
    write_ended(ended)
    print(f"{ended.reason}: {ended.message}", file=sys.stderr)  # noqa: T201 (the container's log)
    return code


if __name__ == "__main__":
    sys.exit(main())
