"""Sources of transactional topologies that are for tests: rows in memory.

Uses only `api`; used by authors through `fulmen.transactional`. They keep nothing: where
a transaction begins and ends is in its metadata. Those of other systems are in `connectors`.
"""
