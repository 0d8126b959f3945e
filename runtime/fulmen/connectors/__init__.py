"""Spouts and sinks for other systems: a pipeline needs no class of one's own.

One room for each system, with `options`, its spouts and its sink; `base`, `formats`, `sql`,
`templates` and `options` are shared. Uses `api`, `errors` and `services`, which has the systems'
own clients; each is an extra of the package and is imported only with its room.
"""
