"""One micro-batch after another: the rooms of the engine, from the ground up.

    tuples, jvm
    grouping, state, protocol, acking
    emitting, batches
    tasks
    worker, hosted, totals
    spark, driver

A room uses those on the floors below it, never one above or beside it.
"""
