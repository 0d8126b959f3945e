"""The end of a topology: what is still to come before it, and what bolts do then. Pure.

`unfinished` knows what tasks still have, `end_of_input` whether sources may bring more, `last_turn`
what the last batches are. Uses `pace`, and what is above in `batches`.
"""
