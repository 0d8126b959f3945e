"""How many workers a topology is to have, if that follows its load: `spec.autoscale`. Pure.

`autoscaling` decides, by what `forecast` expects of other numbers of workers, and by the hours of
`schedule`; `noted` is how that is written into the status. Used by `decide`.
"""
