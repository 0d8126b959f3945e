"""What attempts that came to nothing speak against. Pure.

Against a tuple: `crashes`. Against a task's own calls: `left_out` for spouts,
`own_calls` for bolts. Against a service: then
`service_probe` asks whether it is back. Uses no other part of the engine.
"""
