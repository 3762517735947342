"""A job's files: what they say and how they are read."""
