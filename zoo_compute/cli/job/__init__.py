"""`zoo job`."""
