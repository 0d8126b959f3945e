"""The decision: all that was seen of a topology in, all that is to be done about it out. Pure.

Begin to read with `decide`.
"""
