"""The author's classes: where they are loaded from, and what is wrong with one by itself.

Uses `api` and `topology.resource`. Used by `topology.validation`, by workers, which make instances
of the classes, and by the command line.
"""
