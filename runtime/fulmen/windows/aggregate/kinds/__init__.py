"""The kinds of windows: which ones a tuple is in, what is kept of each, and when it is emitted.

`windower` is what they have in common: `fixed`, on disk too, `sessions` and `counted`. `panes`
emits results. Uses `adding`, and what is above in `windows`.
"""
