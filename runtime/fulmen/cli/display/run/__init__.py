"""Views of a run on this machine: lines, tables, a live display, a summary and advice.

`meter` takes figures of batches, `live_display` draws them. Uses `engine.totals`, snapshots of
`metrics`, and the tables of `cli.display`; used by `cli.local`, and by `top_view` and `why`.
"""
