"""Where everything runs: tasks, executors, their workers, the stages. Nothing random, no I/O."""

from fulmen.plan.model import Executor, Plan, task_key, task_of_key
from fulmen.plan.planner import is_placed_like, make_plan

__all__ = ["Executor", "Plan", "is_placed_like", "make_plan", "task_key", "task_of_key"]
