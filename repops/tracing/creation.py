"""Tensors without a source: constants (expanded scalars) and ranges (`iota` nodes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from repops.builder import Scalar
from repops.graph import F32
from repops.tracing.lower import Context, dtype_of, lowers, meta
from repops.tracing.value import Value


@lowers("full", "full_like", "new_full")
def full(c: Context, node: Any, *arguments: Any, **named: Any) -> Value:
    value = arguments[-1] if arguments and not isinstance(arguments[-1], Value) else named["fill_value"]
    dtype = dtype_of(meta(node).dtype)
    return c.scalar(int(value) if isinstance(value, bool) else value, dtype).expand(meta(node).shape)


@lowers("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "zero", "_efficientzerotensor")
def zeros(c: Context, node: Any, *arguments: Any, **named: Any) -> Value:
    return c.scalar(0, dtype_of(meta(node).dtype)).expand(meta(node).shape)


@lowers("empty_strided", "new_empty_strided")
def empty_strided(c: Context, node: Any, *arguments: Any, **named: Any) -> Value:
    return c.scalar(0, dtype_of(meta(node).dtype)).expand(meta(node).shape)


@lowers("ones", "ones_like", "new_ones")
def ones(c: Context, node: Any, *arguments: Any, **named: Any) -> Value:
    return c.scalar(1, dtype_of(meta(node).dtype)).expand(meta(node).shape)


@lowers("fill")
def fill(c: Context, node: Any, x: Value, value: Any) -> Value:
    filler = value if isinstance(value, Value) else c.scalar(value, x.dtype)
    return filler.expand(x.shape)


@lowers("scalar_tensor")
def scalar_tensor(c: Context, node: Any, value: Scalar, **named: Any) -> Value:
    return c.scalar(value, dtype_of(meta(node).dtype))


@lowers("arange")
def arange(c: Context, node: Any, *bounds_: Scalar, **named: Any) -> Value:
    start, step = (0, 1) if len(bounds_) == 1 else (bounds_[0], bounds_[2] if len(bounds_) > 2 else 1)
    step = named.get("step", step)
    result = Value.of(c.builder.iota(meta(node).shape[0]))
    dtype = dtype_of(meta(node).dtype)
    if dtype == F32:
        scaled = c.map("to_float", result)
        scaled = scaled if step == 1 else c.map("mul", scaled, float(step))
        return scaled if start == 0 else c.map("add", scaled, float(start))
    result = result if step == 1 else c.map("imul", result, step)
    return result if start == 0 else c.map("iadd", result, start)


@lowers("tril", "triu")
def triangle(c: Context, node: Any, x: Value, diagonal: int = 0) -> Value:
    rows, columns = x.shape[-2:]
    row, column = Value.of(c.builder.iota(rows)).unsqueeze(1), Value.of(c.builder.iota(columns))
    above = c.map("ilt", row if not diagonal else c.map("iadd", row, diagonal), column)  # column - row > diagonal
    if node.target._schema.name == "aten::tril":
        return c.map("where", above, c.scalar(0, x.dtype), x)
    inside = c.map("ilt", column, row if not diagonal else c.map("iadd", row, diagonal))
    return c.map("where", inside, c.scalar(0, x.dtype), x)


@lowers("tril_indices", "triu_indices")
def triangle_indices(c: Context, node: Any, rows: int, columns: int, offset: int = 0, **named: Any) -> Value:
    lower = node.target._schema.name == "aten::tril_indices"
    indices = np.tril_indices(rows, offset, columns) if lower else np.triu_indices(rows, offset, columns)
    return Value.of(c.builder.constant(np.stack(indices).astype(np.int32)))
