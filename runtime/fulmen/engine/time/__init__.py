"""Time: event times, watermarks, timers.

`event_times` reads the times of what is emitted, and `watermarks` makes of them what is passed,
batch by batch; both are pure. Uses `api`; used by `emitting`, `batches` and `tasks`.
"""
