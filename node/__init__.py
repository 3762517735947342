"""A node's work: train a slot, combine updates, re-execute, report. It holds no keys and knows no chain.

`prover` and `reporter` need no torch; the rest does. Nothing is imported here, so that a keeper stays light.
"""
