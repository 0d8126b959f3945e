"""The models of the resource: spec, status, and the parts that they are made of.

The one source of the CRD, of the docs, of what each field may be, and of what a change of it does.
Uses `topology.problems`; used by everything that has to do with a topology.
"""
