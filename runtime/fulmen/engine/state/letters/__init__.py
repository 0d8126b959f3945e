"""Dead letters: what is kept of them, how it changes, and what of their values is shown.

`dead_letters` is one of them, `letter_entries` those of a task, `kept_letters` all of a checkpoint;
`message_lines` reads them from files. Uses `entries`, `values` and what is above in `state`.
"""
