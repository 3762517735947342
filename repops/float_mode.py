"""Whether this thread's CPU keeps subnormals, as every program's arithmetic needs.

Loading a library built with -ffast-math, or `torch.set_flush_denormal(True)`, makes the CPU flush them to zero. The
native kernels set the mode themselves and bring the caller's back; whoever computes with numpy, numba or Python checks.
"""

from __future__ import annotations

import numpy as np

_WORDS = np.array([0x00800000, 0x00000001], np.uint32)  # the least normal number and the least subnormal one
_FACTORS = np.array([0.5, 1.0], np.float32)
_EXPECTED = [0x00400000, 0x00000001]


class SubnormalsFlushed(RuntimeError):
    """The CPU flushes subnormals to zero in this thread, so its bits would be wrong."""


def check_float_mode() -> None:
    """Raises SubnormalsFlushed where a subnormal result (FTZ) or operand (DAZ) becomes zero."""
    if (_WORDS.view(np.float32) * _FACTORS).view(np.uint32).tolist() != _EXPECTED:
        raise SubnormalsFlushed(
            "this process flushes subnormal floats to zero, which changes a program's bits; "
            "call torch.set_flush_denormal(False), unload libraries built with -ffast-math, or use the native kernels"
        )
