"""Runs a topology: begins batches, commits them, recovers, counts.

What Storm's Nimbus and a supervisor's bookkeeping do. Uses `batches`, `pinned`, and jobs by their
interface; knows neither Spark nor Kubernetes.
"""
