"""When topologies are looked at: the watches, the queue and the loop."""
