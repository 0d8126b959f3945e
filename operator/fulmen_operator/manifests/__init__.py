"""Builds every object that the operator makes, one function each. Pure: values in, manifests out.

Uses `settings`, `acceptance` and `model`; used by `reconcile`, and by `cluster` for names and
labels.
"""
