"""Reproducible float32: programs that give the same bits everywhere. See README.md beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repops.program import Program, State, load, save
    from repops.tracing import trace, trace_map

__all__ = ["Program", "State", "load", "save", "trace", "trace_map"]


def __getattr__(name: str) -> Any:
    """Import on first use: these need torch, and a client that only reads programs does not."""
    if name in ("trace", "trace_map"):
        from repops import tracing

        return getattr(tracing, name)
    if name in __all__:
        from repops import program

        return getattr(program, name)
    raise AttributeError(f"module 'repops' has no attribute {name!r}")
