"""Kernels for machines without a C++ compiler: numba, node by node, with the bits of the reference.

Elementwise operators and folds are generated from their recipes (`recipe_kernels`), the others are written by hand
(`kernels`). Nothing is compiled with fastmath, and LLVM's code keeps subnormals. Where the process has set its CPU to
flush them (as some audio and inference libraries do), these kernels refuse to run: see `repops.float_mode`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repops.graph import Graph

if TYPE_CHECKING:
    from repops.fallback.runner import NumbaRunner


def check() -> None:
    """Raises ImportError, saying what to install, where numba is missing."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise ImportError(f"numba cannot be imported ({error}): pip install numba") from error


def prepare(graph: Graph, *, fused: bool = True, memory: int | None = None, folder: Path | None = None) -> NumbaRunner:
    """fused, memory, folder: ignored; the bits are the same either way."""
    check()
    from repops.fallback.runner import NumbaRunner

    return NumbaRunner(graph)
