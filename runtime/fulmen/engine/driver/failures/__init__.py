"""The driver's answer to an attempt that failed.

`recovery` tells, waits and has it tried again; `author_calls` knows which calls of authors' it came
to nothing in. Uses what is above it.
"""
