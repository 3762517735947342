"""Requests that an operator serves live, and how they are paid."""
