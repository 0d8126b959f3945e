"""What the containers of driver and preflight have in common: preparation, logs, how they end."""
