"""From the nodes of a pipeline to a topology: fusing, folding, names, and what is wrong.

`compiler` walks through the nodes from each sink to its sources. Beside it are what it looks at:
steps that run ahead of a grouping, ends, declared streams, fields that functions read, and what
transactions change.
"""
