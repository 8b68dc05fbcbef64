"""A file → frames at exact times."""
