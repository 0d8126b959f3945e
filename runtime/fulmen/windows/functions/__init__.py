"""Aggregate functions: what each keeps of values, and how a configuration names it. Pure.

Uses `errors`. Used by windows of all kinds, by running aggregates, and by authors, who derive from
`Aggregation`.
"""
