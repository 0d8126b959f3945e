"""`fulmen why`: what is not as it should be, as sentences with cures. Pure.

`findings` puts together what a `cluster` and a `run` tell; `reasons.md` has the text and the cure
of each reason. Used by `cli.commands`.
"""
