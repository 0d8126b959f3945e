"""Pinned spouts, which the driver hosts: their threads, their turns, and what of them a batch gets.

Uses `tasks` and the rooms below it. `driver` uses it.
"""
