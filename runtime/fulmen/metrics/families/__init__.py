"""Metric families for Prometheus, made of a `snapshot` at each scrape.

`topology` collects them all. Uses `metrics.snapshot`; used by `metrics.server`.
"""
