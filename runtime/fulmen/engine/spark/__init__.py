"""Spark: its session, chains of RDDs, where workers are, and the jobs that run stages.

Together with nothing else this imports pyspark. Uses `worker`, `protocol` and `jvm`.
"""
