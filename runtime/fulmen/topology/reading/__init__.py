"""From YAML to the models: with limits, `--set`, and each field's mistake in our own words."""
