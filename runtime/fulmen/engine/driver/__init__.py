"""Runs a topology: begins batches, commits them, recovers.

What Storm's Nimbus and a supervisor's bookkeeping do. Uses `batches`, `hosted` and `totals`, and
jobs by their interface; knows neither Spark nor Kubernetes.
"""
