"""Savepoints: states that stay, that go elsewhere, and that a topology can go back to.

`pins` says which states stay, `history` which commits follow on one another, `exports` copies a
state to another place.
"""
