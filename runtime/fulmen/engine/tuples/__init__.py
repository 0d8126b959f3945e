"""The values of tuples, chunks of them, and their bytes on the wire.

`TupleRows` has the values, as rows, as columns, as they are sent, or as Arrow; a chunk is what a
task receives at once. Everything above works on these. Uses nothing else of the engine.
"""
