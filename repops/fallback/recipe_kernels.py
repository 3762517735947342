# mypy: disable-error-code="no-untyped-def,call-arg"
"""Kernels made from recipes. numba keeps their machine code by the recipe's number, so each is compiled once a machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from numba import njit, uint32

from repops.fallback.primitives import apply, register
from repops.recipes import Recipe

Kernel = Callable[..., None]

compiled = njit(error_model="numpy", nogil=True, cache=True)


@cache
def map_kernel(recipe: Recipe) -> Kernel:
    """kernel(first, last, out, x, ...): elements first to last of flat uint32 arrays."""
    number = register(recipe)

    @compiled
    def of_one(first, last, out, x):
        out, x = out[first:last], x[first:last]
        for i in range(last - first):
            out[i] = apply(number, (x[i],))

    @compiled
    def of_two(first, last, out, x, y):
        out, x, y = out[first:last], x[first:last], y[first:last]
        for i in range(last - first):
            out[i] = apply(number, (x[i], y[i]))

    @compiled
    def of_three(first, last, out, x, y, z):
        out, x, y, z = out[first:last], x[first:last], y[first:last], z[first:last]
        for i in range(last - first):
            out[i] = apply(number, (x[i], y[i], z[i]))

    kernels: list[Kernel] = [of_one, of_two, of_three]
    return kernels[recipe.inputs - 1]


@cache
def fold_kernel(recipe: Recipe, start: int) -> Kernel:
    """kernel(first, last, out, x): element e of `out` carries `start` through the terms x[0, e], x[1, e], ..."""
    number = register(recipe)

    @compiled
    def fold(first, last, out, x):
        out = out[first:last]
        out[:] = uint32(start)
        for k in range(x.shape[0]):
            line = x[k][first:last]
            for i in range(last - first):
                out[i] = apply(number, (out[i], line[i]))

    kernel: Kernel = fold
    return kernel
