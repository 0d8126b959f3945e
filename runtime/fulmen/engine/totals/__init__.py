"""What a topology has done so far: counts, latencies, errors, and what became of transactions.

Uses `batches` and the rooms below it. `driver` adds to it; metrics and the command line read it.
"""
