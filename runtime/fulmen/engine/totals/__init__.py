"""Totals of a topology so far: counts, latencies, errors, and outcomes of transactions.

Uses `batches` and the rooms below it. `driver` adds to it; metrics and the command line read it.
"""
