"""Every mistake in a topology at once: `check`, and the rules that take several fields to see."""
