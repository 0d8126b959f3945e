"""The subcommands of `fulmen`, a module each: arguments in, words out."""
