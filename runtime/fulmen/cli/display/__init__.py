"""Views for people: figures of a running topology, as lines, tables, a live display and advice.

What a driver serves as JSON is read in `served_figures`, for `top_view` and `why`. Uses
`engine.totals`, snapshots of `metrics`, and what a cluster tells; knows no command. Used by
`cli.local` and `cli.commands`.
"""
