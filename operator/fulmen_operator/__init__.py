"""The operator: makes what a Topology says true, and says how it stands."""
