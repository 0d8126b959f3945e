"""The load that a driver reports to the operator, which decides about the number of workers."""

from fulmen.kube.message import ContractModel


class ComponentLoad(ContractModel):
    """The latest load of a component.

    Attributes:
        name: The spout or bolt, or `__acker`.
        seconds: Work of all its tasks per second, in the author's code. Not known for spouts.
        busiest: Work per second of the task that worked most.
        tasks: The number of its tasks.
        active: The number of its tasks that had something to do.
    """

    name: str
    seconds: float = 0.0
    busiest: float = 0.0
    tasks: int = 1
    active: int = 1


class StageLoad(ContractModel):
    """The latest load of a stage of batches.

    Attributes:
        slowest: Seconds of its slowest worker per second: batches took as long for it.
        workers: Seconds of all workers per second.
        components: The components that run in it: sources, and those that had something to do.
    """

    slowest: float
    workers: float
    components: tuple[ComponentLoad, ...] = ()


class Load(ContractModel):
    """The load of a topology in the last minute, and how far it was behind.

    Attributes:
        workers: The number of its workers.
        stages: All stages of a batch that workers run.
        tuples: Tuples that bolts executed per second.
        cpu: The share of the workers' seconds in which their processes used a processor.
        run_delay: The share in which they were ready to run, and had no processor.
        lag: Seconds for which the oldest message of a source waits; None: no source tells.
        behind: The spout with that lag.
    """

    workers: int
    stages: tuple[StageLoad, ...] = ()
    tuples: float = 0.0
    cpu: float = 1.0
    run_delay: float = 0.0
    lag: float | None = None
    behind: str = ""
