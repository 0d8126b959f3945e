"""Which call of an author's code a process is in, so that a loss or a hang can be explained.

`told_calls` is how the driver hears of it. `forks` ends children that a call leaves behind. Uses no
other part of the engine.
"""
