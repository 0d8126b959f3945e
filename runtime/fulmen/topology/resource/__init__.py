"""The models of the resource: spec, status, and the parts that they are made of.

The one source of the CRD, of the docs and of what each field may be. Uses `topology.problems`; used
by everything that has to do with a topology.
"""
