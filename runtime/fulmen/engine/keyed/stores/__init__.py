"""Where keys and values are kept that need not fit into memory. Knows no tasks and no checkpoint.

`key_bytes` makes ordered bytes of keys, and `local_store` keeps bytes in a folder of this process.
"""
