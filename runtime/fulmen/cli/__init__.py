"""The command `fulmen`. It ends with 0 if all is fine, with 2 for a `bad_input`, else with 1.

`main` finds the subcommand in `commands`. `local` runs topologies on this machine, `cluster` talks
to a cluster, `display` shows figures. May use everything in `fulmen`; used by nothing else.
"""
