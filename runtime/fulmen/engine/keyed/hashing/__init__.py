"""Hashes of values and columns, the same in each process, and the positions that keys get of them.

Uses what is above it.
"""
