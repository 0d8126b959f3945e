"""A worker: its Python process, the tasks of each stage in it, and the call of Spark for a batch.

No Spark here. `in_process` is the same without processes. Uses `tasks`; used by `spark`.
"""
