"""What a driver tells the operator of its load, which decides about the number of workers."""

from fulmen.kube.message import ContractModel


class ComponentLoad(ContractModel):
    """What a component did lately.

    Attributes:
        name: The spout or bolt, or `__acker`.
        seconds: What its tasks together worked in each second, in the author's code. Spouts don't
            know it.
        busiest: The same of the task that worked most.
        tasks: How many tasks it has.
        active: How many of them had something to do.
    """

    name: str
    seconds: float = 0.0
    busiest: float = 0.0
    tasks: int = 1
    active: int = 1


class StageLoad(ContractModel):
    """What a stage of batches took lately.

    Attributes:
        slowest: Seconds of its slowest worker in each second: batches took as long for it.
        workers: Seconds of all workers in each second.
        components: What runs in it: sources, and what had something to do.
    """

    slowest: float
    workers: float
    components: tuple[ComponentLoad, ...] = ()


class Load(ContractModel):
    """What a topology had to do in the last minute, and how far it was behind.

    Attributes:
        workers: How many workers it has.
        stages: All stages of a batch that workers run.
        tuples: How many tuples bolts executed in each second.
        cpu: Which share of the workers' seconds their processes used a processor for.
        run_delay: For which share they were ready to run, and had no processor.
        lag: For how many seconds the oldest message of a source waits; None: no source says.
        behind: The spout that says so.
    """

    workers: int
    stages: tuple[StageLoad, ...] = ()
    tuples: float = 0.0
    cpu: float = 1.0
    run_delay: float = 0.0
    lag: float | None = None
    behind: str = ""
