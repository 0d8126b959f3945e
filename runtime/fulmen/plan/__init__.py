"""Where everything runs: tasks, executors, their workers, the stages.

Pure: nothing random, no I/O, so that driver, operator and command line come to the same plan. Uses
`topology`; used by `engine`, `metrics`, `kube` and `cli`.
"""

from fulmen.plan.model import Executor, Plan, task_key, task_of_key
from fulmen.plan.planner import is_placed_like, make_plan

__all__ = ["Executor", "Plan", "is_placed_like", "make_plan", "task_key", "task_of_key"]
