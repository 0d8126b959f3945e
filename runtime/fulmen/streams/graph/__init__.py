"""What an author's calls say, before it becomes a topology, and where functions are found again.

Nodes, their places in the author's file, and the pipelines of this process by their modules. Only
`rows` is below it.
"""
