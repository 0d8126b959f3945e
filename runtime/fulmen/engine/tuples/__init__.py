"""Tuples as columns, and their bytes on the wire.

A chunk is what a task receives at once; emitted rows become columns, and columns bytes. Everything
above works on these. Uses nothing else of the engine.
"""
