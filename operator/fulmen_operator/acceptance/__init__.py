"""Decides whether a topology's spec can run. Pure.

`judge` accepts or refuses a spec, `pod_security` what a `podTemplate` may ask for. Uses `model`
and `reasons`; used by `settings`, `manifests` and `reconcile`.
"""
