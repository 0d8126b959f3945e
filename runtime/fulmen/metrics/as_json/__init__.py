"""A topology as JSON (`docs/metrics.md`), for the page and for other programs.

`topology` puts it together. Uses `metrics.snapshot`; used by `metrics.server`.
"""
