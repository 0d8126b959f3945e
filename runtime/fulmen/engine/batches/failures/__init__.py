"""The suspects of failed attempts, and what later attempts do without. Pure.

`blame` decides: against a service, then `service_probe` asks whether it is back; against a task's
own calls, which are `suspects` or `own_calls`; else against a tuple, which `crashes` looks for.
Uses what is above in `batches`.
"""
