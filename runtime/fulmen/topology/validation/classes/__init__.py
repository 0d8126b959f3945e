"""Mistakes that only the author's classes show: `Classes` loads and asks them.

Uses `topology.code`, `topology.configuration`, `topology.reading`. Used by `validation.check`.
"""
