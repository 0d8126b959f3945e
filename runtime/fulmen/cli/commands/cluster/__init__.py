"""The subcommands that are about a topology on a cluster, which they reach through `kubectl`.

Uses `cli.kubectl`, `cli.cluster_topology` and `cli.display`; `cli.main` loads the module of the one
that was called.
"""
