"""`zoo node`."""
