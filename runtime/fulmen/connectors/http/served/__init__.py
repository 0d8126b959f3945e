"""What serves HTTP: requests as a source, and calls that a topology answers.

`source` has what both have in common, and `listening` receives requests and sends answers.
`contents` understands requests, `remembered` has the answers to keys, `spout`
is what becomes of messages; `calls` of calls, which `openapi` describes; `call_bolts` is what bolts
do with them. `options` has what a topology's file may say.
"""
