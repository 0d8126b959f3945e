"""Whether what a topology asks for can be run, and what a change of it does. Pure."""
