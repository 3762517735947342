"""Writes the generated files of this repository: `python -m scripts.generate [--check] [NAME ...]`."""
