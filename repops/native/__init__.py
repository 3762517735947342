"""Chooses and loads the native library for this CPU.

REPOPS_ISA (avx512, avx2, neon or portable) forces one. The bits are the same with every one of them.
"""

from __future__ import annotations

import ctypes
import functools
import os
from types import ModuleType

AVX2, AVX512, NEON = 1, 2, 4  # bits of repops_cpu_features()
_NEEDS = {"avx512": AVX512, "avx2": AVX2, "neon": NEON, "portable": 0}


class NoNativeLibrary(RuntimeError):
    """No native library can be loaded; the message says what to install."""


def _builder() -> ModuleType:
    from repops.native import build  # late, so that `python -m repops.native.build` runs it once

    return build


def _present() -> list[str]:
    builder = _builder()
    return [isa for isa in builder.targets() if builder.library(isa).exists()]


@functools.cache
def _ensure_built() -> None:
    """Build missing libraries if there is a compiler."""
    builder = _builder()
    if len(_present()) == len(builder.targets()):
        return
    try:
        builder.build()
    except (builder.NoCompiler, builder.CompileError, OSError) as error:
        if not _present():
            raise NoNativeLibrary(
                f"repops has no native library and cannot build one ({error}). "
                "Install a C++ compiler and run `python -m repops.native.build`."
            ) from error


@functools.cache
def _open(isa: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(_builder().library(isa)))
    except OSError as error:
        raise NoNativeLibrary(f"{error}. Run `python -m repops.native.build --force`.") from error


@functools.cache
def _features() -> int:
    if not _builder().library("portable").exists():
        return 0
    return int(_open("portable").repops_cpu_features())


def available() -> list[str]:
    """Instruction sets that are built and that this CPU has, best first. Raises NoNativeLibrary when nothing is built."""
    _ensure_built()
    return [isa for isa in _present() if _NEEDS[isa] & _features() == _NEEDS[isa]]


@functools.cache
def _load(isa: str | None) -> ctypes.CDLL:
    usable = available()
    if isa is not None and isa not in usable:
        raise ValueError(f"instruction set {isa!r}: expected one of {', '.join(usable)} (what this CPU and build have)")
    if not usable:
        raise NoNativeLibrary("repops: no library suits this CPU. Run `python -m repops.native.build --force`.")
    return _open(isa or usable[0])


def load(isa: str | None = None) -> ctypes.CDLL:
    """The library for `isa`, else for $REPOPS_ISA, else for the best set this CPU has; one handle a process.

    Raises ValueError for a set that is unknown or not available, NoNativeLibrary when there is nothing to load.
    """
    return _load(isa or os.environ.get("REPOPS_ISA") or None)
