"""Checks that a device computes the CPU's bits: runs a fixed set of programs over the whole operator table on both.

`python -m repops.conformance --device cuda:0` prints JSON lines. Needs no torch.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SOURCES = (".py", ".cuh", ".cpp", ".h")


@cache
def source_digest(root: Path = Path(__file__).parents[1]) -> str:
    """A digest of the sources of this package from which kernels are generated."""
    digest = hashlib.sha256()
    for path in sorted(each for each in root.rglob("*") if each.suffix in SOURCES):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
