"""Matrix products: one node each, which reads its operands through strides."""

from __future__ import annotations

from typing import Any

from repops.builder import Scalar
from repops.tracing.lower import Context, lowers
from repops.tracing.value import Value


@lowers("mm", "bmm")
def mm(c: Context, node: Any, a: Value, b: Value) -> Value:
    return c.dot(a, b)


@lowers("mv", "dot", "vdot")
def vector(c: Context, node: Any, a: Value, b: Value) -> Value:
    if a.rank == 1:
        return c.reshape(c.dot(a.unsqueeze(0), b.unsqueeze(1)), ())
    return c.dot(a, b.unsqueeze(1)).squeeze(1)


@lowers("addmm", "baddbmm")
def addmm(c: Context, node: Any, bias: Value, a: Value, b: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    product = c.dot(a, b)
    if alpha != 1:
        product = c.map("mul", product, float(alpha))
    if beta != 1:
        bias = c.map("mul", bias, float(beta))
    return c.map("add", product, bias)


@lowers("addbmm")
def addbmm(c: Context, node: Any, bias: Value, a: Value, b: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """All products of the batch added: one product of them side by side."""
    count, rows, inner = a.shape
    wide = c.reshape(a.permute([1, 0, 2]), [rows, count * inner])
    return addmm(c, node, bias, wide, c.reshape(b, [count * inner, b.shape[2]]), beta=beta, alpha=alpha)
