"""`self.state` of a task: its entries, and the segments that they are written in.

`segment_format` makes bytes of many entries at once, with what `measures` knows of columns. Uses
`values` and `pickling`.
"""
