"""The Java that Spark runs on: where it is, with which settings and classes, in which folder.

Uses nothing else of the engine; used by `spark`.
"""
