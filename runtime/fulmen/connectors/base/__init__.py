"""The base of the connectors of all systems.

A source derives from `source`, one of a transactional topology from `parts`; a sink of messages
from `sink`, and one that writes rows of several commits at once from `gathering`. `bisection` finds
refused rows, and `row_ids` tells those that are sent again; `recurring` is for what a source does
now and then, such as telling its lag; `lookup` completes tuples from tables in memory. Uses
`formats`; used by the rooms of all systems.
"""
