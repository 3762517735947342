"""The native library's functions for updates."""

from __future__ import annotations

import ctypes
from functools import cache

from repops import native


@cache
def library() -> ctypes.CDLL | None:
    """None where there is none for this machine: then the same is computed in Python, slower."""
    try:
        functions = native.load()
    except native.NoNativeLibrary:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    functions.repops_update_words.argtypes = [
        *(pointer, number, pointer, pointer, pointer, number, number, number),
        *(ctypes.c_int, pointer),
    ]
    functions.repops_update_words.restype = ctypes.c_int
    functions.repops_sent_elements.argtypes = [pointer, pointer, number, number, ctypes.c_int32]
    functions.repops_sent_elements.restype = None
    return functions
