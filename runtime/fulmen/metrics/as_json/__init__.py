"""What the page shows and other programs read: a topology as JSON (`docs/metrics.md`).

`topology` puts it together. Uses `metrics.snapshot`; used by `metrics.server`.
"""
