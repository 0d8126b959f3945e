"""The spouts of files: which file is read next, its records, and what became of their messages.

`files_spout` is what `line_spout` and `parquet_spout` have in common. How far each file is read is
in `positions`, whose classes are in checkpoints. Uses `places` and `formats`.
"""
