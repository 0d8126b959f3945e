"""What people see: figures of a running topology, as lines, tables, a live display and advice.

Uses the totals of `engine.driver` and what a cluster tells; knows no command. Used by `cli.local`
and `cli.commands`.
"""
