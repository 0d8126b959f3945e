"""The author's classes: where they are loaded from, and what is wrong with one by itself."""
