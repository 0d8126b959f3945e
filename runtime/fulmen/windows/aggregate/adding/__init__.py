"""How rows are added to what is kept of windows: one by one, by the list, or by columns of Arrow.

`aggregates` is what bolts use. `at_once` says of each aggregation which ways there are; each way
has the same results. Uses what is above in `windows`.
"""
