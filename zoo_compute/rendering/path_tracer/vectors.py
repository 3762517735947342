"""Vectors of three components, each a tensor of N numbers, or one number for all: kept apart, so that kernels run along the N."""

from __future__ import annotations

from typing import Any

import torch

Vector = tuple[Any, Any, Any]
TINY = 1e-12  # under a root: the length of a vector of zeros has a derivative, too


def dot(a: Vector, b: Vector) -> Any:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def along(start: Vector, distance: Any, direction: Vector) -> Vector:
    """start + distance * direction"""
    return tuple(s + distance * d for s, d in zip(start, direction, strict=True))


def scaled(a: Vector, by: Any) -> Vector:
    return a[0] * by, a[1] * by, a[2] * by


def product(a: Vector, b: Vector) -> Vector:
    """Component by component."""
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


def added(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def unit(a: Vector) -> Vector:
    return scaled(a, torch.rsqrt(dot(a, a) + TINY))


def chosen(where: torch.Tensor, a: Vector, b: Vector) -> Vector:
    """a where `where` is true, else b."""
    return tuple(torch.where(where, x, y) for x, y in zip(a, b, strict=True))  # type: ignore[return-value]
