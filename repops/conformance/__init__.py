"""Does a device compute the CPU's bits? A fixed set of programs over the whole operator table, run there and on the CPU.

`python -m repops.conformance --device cuda:0` answers in JSON lines. Knows no torch.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SOURCES = (".py", ".cuh", ".cpp", ".h")


@cache
def source_digest(root: Path = Path(__file__).parents[1]) -> str:
    """Of everything in this package that the kernels of any device come from."""
    digest = hashlib.sha256()
    for path in sorted(each for each in root.rglob("*") if each.suffix in SOURCES):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
