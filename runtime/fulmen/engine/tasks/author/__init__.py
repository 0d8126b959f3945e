"""The author's code in a task: its instance, what it raises, its event loop.

A task calls it through here, so that what an author's code does to its process stays known. Used by
`hosted` and `worker`, too, and by the preflight in `kube`.
"""
