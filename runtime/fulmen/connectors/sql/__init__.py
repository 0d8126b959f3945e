"""The base of the connectors of SQL databases.

`options` has the options of tables, `tables` what a table has to be like, `database` how its errors
are told. `sink` writes rows and marks in one transaction. `source` is what all sources of rows
have; `growing` is that of a table that grows. Uses `api`, `connectors.base`, `services` and no
database. Used by `connectors.sqlite` and `connectors.postgres`.
"""
