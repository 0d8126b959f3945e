"""Messages between the driver and the stages of a batch.

`placed_topology` is constant while a plan is in force, `header` begins a batch, `summary` ends a
stage of it, `statistics` are what is measured meanwhile; `jobs` is how the driver has stages run.
Uses `tuples`.
"""
