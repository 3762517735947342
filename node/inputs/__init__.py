"""Inputs of a slot-round: job files, checkpoints, bundles and updates, fetched and checked against their roots."""
