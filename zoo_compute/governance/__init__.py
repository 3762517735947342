"""Calls through the timelock, and the treasury."""
