"""Durable values of a component, and their bytes.

Durable fields, keyed state in segments, messages of spouts that have not ended, tuples that were
dropped. Uses `tuples` and `checkpoint`; used by tasks, and by those who read a checkpoint.
"""
