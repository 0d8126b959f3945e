"""The tasks of spouts: how trees ended, and their turn to emit.

Uses `task`, `parts` and the rooms that `tasks` uses; used by `worker` and `hosted`.
"""
