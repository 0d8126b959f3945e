"""When the next batch begins, and which stages it can leave out. Pure.

`rests` decides when, with `idle` and `next_timers`; `stage_skipping` which. Uses what is above in
`batches`.
"""
