"""The stages of a batch as RDDs of Spark's.

`chains` are built once and run again, `placement` keeps their partitions on their workers, and
`stage_runner` is what Spark calls for one partition.
"""
