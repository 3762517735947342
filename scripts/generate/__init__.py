"""What programs write of this repository: `python -m scripts.generate [--check] [NAME ...]`."""
