"""A topology on this machine: prepared, run, drained, with a folder for what it keeps and logs."""
