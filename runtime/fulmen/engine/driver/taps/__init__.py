"""Taps: people who look at tuples of a running topology.

`wanted` says what can be asked for, `taps` keeps who has asked. Uses nothing that is above it.
"""
