"""Whether what a topology asks for can be run, and what a change of it does. Pure.

`verdict` accepts or refuses a spec, `changes` has the effect of each field, `pod_security` what a
`podTemplate` may ask for. Uses `model` and `reasons`; used by `settings`, `manifests` and
`reconcile`.
"""
