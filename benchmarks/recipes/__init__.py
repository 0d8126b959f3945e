"""How many rows a second the recipes carry, beside plain Python and Bytewax.

`python -m benchmarks.recipes` measures it; `loops` and `dataflows` are what it compares with.
"""
