"""What people see: figures of a running topology, as lines, tables, a live display and advice."""
