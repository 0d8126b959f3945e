"""What sources of all systems have in common: a new one derives from `source`.

Uses `formats`; used by the rooms of all systems. Sources of transactional topologies derive from
`parts`; `recurring` is for what a source does now and then by its clock, such as telling its lag.
"""
