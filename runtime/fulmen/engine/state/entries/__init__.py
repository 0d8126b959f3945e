"""`self.state` of a task: its entries, and the segments that they are written in.

`segment_format` makes segments of many entries at once, with what `measures` knows of columns;
`segment_blocks` says what their bytes are, `value_columns` those of keys and values. Uses `values`
and `pickling`.
"""
