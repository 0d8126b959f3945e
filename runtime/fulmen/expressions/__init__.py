"""SQL expressions over the rows of a stream: the `where` and `select` of an input.

Text is parsed by sqlglot as DuckDB's dialect, typed, and compiled to Python source that runs over
many rows at once. What is not in the table of `functions` does not exist, so an expression reads
nothing but its row: no files, no network, no settings, no clock. Uses `errors`; used by `topology`,
which tells mistakes before anything runs, and by `engine/emitting`, which runs the steps of an
input. No I/O.
"""
