"""The number of workers that follows the load: `spec.autoscale`. Pure.

`autoscaling` decides, by the estimates of `forecast` for other numbers of workers, and by the hours
of `schedule`; `noted` writes the decision into the status. Used by `decide`.
"""
