"""Parts of tasks besides the author's instance: messages, results, timers, own calls.

A part has what belongs to it in the checkpoint and in summaries. Uses `task` and the rooms that
`tasks` uses; used by the kinds of tasks in `spouts`, `bolts` and `transactional`.
"""
