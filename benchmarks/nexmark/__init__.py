"""Nexmark and the Yahoo streaming benchmark as topologies, each with the SQL that it must equal."""
