"""Importing this registers every lowering."""

from __future__ import annotations

from importlib import import_module

FAMILIES = (
    "activations",
    "assigning",
    "choice",
    "contraction",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "normalisation",
    "pooling",
    "randomness",
    "reduction",
    "resampling",
    "scans",
    "shaping",
    "sorting",
    "trigonometry",
)
LOADED = [import_module(f"repops.tracing.{name}") for name in FAMILIES]
