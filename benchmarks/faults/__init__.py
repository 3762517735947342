"""Faults that are fired at a small network of real processes while it serves jobs. Run by `python benchmarks/chaos.py`."""
