"""Reproducible training: programs, canonical files and commitments. Knows no chain, no store, no clock.

`fields`, `specs`, `commitments` and `files` need numpy at most; `architectures` and `program` need torch.
"""
