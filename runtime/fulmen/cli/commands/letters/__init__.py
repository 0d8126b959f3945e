"""`fulmen dead-letters` and `fulmen replay`: messages are sent again.

`places` is where they are sent: a topology that runs, or the checkpoint of one that is stopped.
"""
