"""Nexmark and the Yahoo streaming benchmark as topologies, each with the SQL that it must equal.

`python -m benchmarks.nexmark` measures them and compares their results with DuckDB's; `dataflow`
has what of them can be said in Bytewax, to compare with.
"""
