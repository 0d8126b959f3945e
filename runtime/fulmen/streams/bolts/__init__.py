"""The bolts that run an author's functions: steps in one loop, and what is kept by key.

They are all that a topology has of a pipeline. They find the functions in the author's module, by
the registry in `graph`, and know nothing of how a pipeline is compiled.
"""
