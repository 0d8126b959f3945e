"""One pipeline, written in five ways: how long it is, and how fast."""
