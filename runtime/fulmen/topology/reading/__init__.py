"""From YAML to the models: with limits, `--set`, and each field's mistake in our own words.

Uses `topology.resource` and `topology.problems`. Used by `topology.validation`, and by everything
that reads a topology: command line, driver, operator and tests.
"""
