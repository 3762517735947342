"""Calls of the timelock, and the treasury."""
