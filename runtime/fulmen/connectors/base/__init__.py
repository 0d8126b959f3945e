"""What connectors of all systems have in common.

A source derives from `source`, one of a transactional topology from `parts`, and a sink that writes
rows of several commits at once from `gathering`; `recurring` is for what a source does now and then
by its clock, such as telling its lag. Uses `formats`; used by the rooms of all systems.
"""
