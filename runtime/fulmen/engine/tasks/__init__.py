"""Spouts, bolts and ackers in one batch: an author's instance and everything that is around it.

Uses all that is below; used by `worker`, and by `driver` for pinned spouts.
"""
