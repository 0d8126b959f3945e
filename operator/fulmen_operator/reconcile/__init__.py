"""The decision: all that was seen of a topology in, all that is to be done about it out. Pure.

Begin to read with `decide`. `rollout` and `trial` say which version runs, `scaling` with how many
workers, `next_step` what its driver does next, `conditions` and `status` what people are told. Uses
`manifests` and below; used by `controller`.
"""
