"""Sources of transactional topologies: rows in memory, and the lines of files.

Uses only `api`; used by authors through `fulmen.transactional`. They keep nothing: where
a transaction begins and ends is in its metadata.
"""
