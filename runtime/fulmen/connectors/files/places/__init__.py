"""Where files are: folders of this machine or of a volume, and buckets.

Each place says which files there are, opens them, and takes whole ones. What is read of them, and
how far, is the spouts' to know. Uses `positions`.
"""
