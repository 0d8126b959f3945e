"""Spouts and sinks for other systems: a pipeline needs no class of one's own.

One room for each system; `formats` and `options` are shared by all. Uses `api`, `errors`
and the systems' own clients, each of which is an extra of the package and is imported only by its
room.
"""
