"""How many tuples the next batch may have, by what the last ones took. Pure.

`batch_size` decides, with what `permits` and `fixed_cost` know of batches before. Uses what is
above in `batches`.
"""
