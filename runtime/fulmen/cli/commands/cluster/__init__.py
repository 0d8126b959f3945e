"""The subcommands that are about a topology on a cluster, which they reach through `kubectl`.

Each module is one of them, but `lifecycle`, which has three. Uses `cli.cluster` and `cli.display`;
`cli.main` loads the module of the one that was called.
"""
