"""From the calls of an author to nodes: what is meant, and what is refused at once.

`stream` and `pipeline` have what authors call; here is what these calls have in common. What is
wrong only together with other calls is found in `compiling`.
"""
