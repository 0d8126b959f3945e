"""`fulmen state`: what components keep in a checkpoint, looked at and mended.

`command` is the group. `get` and `sizes` show, and `serve` does over HTTP; `change` sets and
removes; `transfer` exports and imports files that `row_files` writes and reads; `history` lists
changes and takes them back; `decide` is for stores that don't fit and components that are gone.
`kept` opens a checkpoint.
"""
