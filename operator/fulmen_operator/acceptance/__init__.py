"""Decides whether a topology's spec can run. Pure.

`verdict` accepts or refuses a spec, `pod_security` what a `podTemplate` may ask for. Uses `model`
and `reasons`; used by `settings`, `manifests` and `reconcile`.
"""
