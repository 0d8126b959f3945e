"""The subcommands of `fulmen`, a module each: arguments in, words out.

Uses all other rooms of `cli`; `cli.main` loads the module of the one that was called.
"""
