"""What the connectors of SQL databases have in common.

`options` has the options of tables, `tables` what a table has to be like. `sink` writes rows and
marks in one transaction; `growing` is the source of a table that grows. Uses `api`, the errors of
`transactional`, and no database. Used by `connectors.sqlite` and `connectors.postgres`.
"""
