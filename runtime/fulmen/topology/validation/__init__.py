"""Every mistake in a topology at once: `check`, and the rules that take several fields to see.

Uses `topology.code`, `topology.reading` and `topology.resource`. Used by the command line, the
driver, the preflight, and by the operator, which has no classes to look at.
"""
